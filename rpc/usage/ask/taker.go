// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/breaker"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/fan"
	"github.com/headgate/headgate/rpc/usage"
)

// Errors of a Taker. Nothing was taken. If the owner took tokens and its answer was
// lost, the Taker has the owner give them back.
var (
	// ErrBusy is that too many takes wait for the same owner.
	ErrBusy = errors.New("rpc: too many takes wait for this owner")
	// ErrSilent is that the owner did not answer several times. The Taker asks it
	// again only now and then.
	ErrSilent = errors.New("rpc: this owner has not answered recently")
	// ErrUndecided is that the owner has no bucket for the key: no such rule,
	// no room, or it is about to leave.
	ErrUndecided = errors.New("rpc: the owner has no bucket for this key: the rule has its max_keys there, or the owner its max_owned_keys; or it has other limits, or is about to leave")
)

const (
	// DefaultTimeout is some tens of round trips within a data centre, and
	// outlasts a pause of the garbage collector or of the scheduler. A request
	// that waits for an answer cannot spare much more. It is the default of a
	// rule's ask_timeout too.
	DefaultTimeout = 20 * time.Millisecond

	// MaxQueue is how many takes may wait for one owner. Those of more fail at once.
	MaxQueue = 8192

	// Window is how long a take waits at most for others to share its call, while another
	// call is under way.
	Window = 500 * time.Microsecond

	takesPerCall  = 1024 // so that a call is far from its timeout
	callsPerOwner = 4    // at once

	// underWayFor is how long a message may still arrive after its caller has given
	// up.
	underWayFor = time.Minute
)

// silence says when an owner is no longer asked. Calls to one owner overlap, and
// fail together when it pauses.
var silence = breaker.Config{Failures: 3, Distinct: true, Pause: 100 * time.Millisecond}

// Here keeps the buckets of the keys that this very host owns. It is safe for
// concurrent use.
type Here interface {
	// TakeHere takes one row, of host, and returns this host's number as an owner
	// too. The caller has checked t.
	TakeHere(host string, t usage.Take) (took usage.Took, by uint32)
}

// Taker takes tokens from the buckets of the owners of keys, one event at a
// time, for many callers at once. Takes that come while a call to the same
// owner is under way share the next call, which starts when that call has ended,
// or after Window. For keys that this host owns itself, Local decides. Takes with
// different timeouts do not share calls: none of them waits for longer, or
// fails sooner, because of another's timeout.
//
// The callers make the calls. The Taker starts a goroutine only for a caller that
// may give up before a long timeout ends, and to withdraw. If a call is not
// answered, the takes in it fail, and the next call withdraws them. If there is no
// next call soon, the Taker makes one that only withdraws, until Close. After
// several calls without an answer, takes from that owner fail at once, but for one
// now and then.
//
// Its fields do not change once it is in use. Safe for concurrent use.
type Taker struct {
	// Host names the asking host.
	Host string

	// Placement says who owns which key.
	Placement rpc.Placement

	// Peers finds the owners.
	Peers rpc.Peers

	// Self is the address under which the Placement knows this very host, and
	// Local keeps its buckets. If Local is nil, Peers finds this host too.
	Self  string
	Local Here

	// Timeout bounds each call of takes that have no timeout of their own;
	// default DefaultTimeout. Higher means fewer takes that fail when the
	// owner is slow, which wait for longer.
	Timeout time.Duration

	// Undecided is the error of takes that the asked peer left undecided; nil is
	// ErrUndecided. The peers of a program are edges, which have more reasons than owners.
	Undecided error

	own     atomic.Uint64
	undoing undoing
	queues  queues
	answers lastAnswers
	waiting sync.Pool

	simulation Simulation // nil: of a service
}

// Take is TakeWithin Timeout.
func (t *Taker) Take(ctx context.Context, take usage.Take) (usage.Took, error) {
	return t.TakeWithin(ctx, take, 0)
}

// TakeWithin takes from the bucket of take's key, at its owner. The Taker fills in
// Told, Ago and By. TakeWithin returns within twice timeout, and when ctx ends,
// unless twice timeout is a short time anyway. If there is an error, nothing was
// taken, or it is given back. A timeout of 0 or less is the Taker's.
//
// Tokens that are SpentBeyond, of a key whose takes failed since the last such
// call, are SpentApart: a fallback let them through.
func (t *Taker) TakeWithin(ctx context.Context, take usage.Take, timeout time.Duration) (usage.Took, error) {
	if err := take.Check(0); err != nil {
		return usage.Took{}, err
	}
	return t.within(ctx, take, timeout)
}

// within is TakeWithin for a take that is checked.
func (t *Taker) within(ctx context.Context, take usage.Take, timeout time.Duration) (usage.Took, error) {
	if err := ctx.Err(); err != nil {
		return usage.Took{}, err
	}
	t.fillSpent(&take)
	took, err := t.take(ctx, take, timeout)
	return t.ended(&take, took, err, ctx.Err() == nil)
}

// fillSpent says of tokens that are spent already how they were. What a caller says of earlier answers
// is dropped: the Taker says what it knows itself.
func (t *Taker) fillSpent(take *usage.Take) {
	take.Told, take.By, take.Ago = 0, 0, 0
	if take.Spent == usage.SpentBeyond && t.answers.failed(accountOf(take)) {
		take.Spent = usage.SpentApart
	}
}

// ended is what take's caller gets. If there is no answer, and the caller has not gone, a
// fallback decides.
func (t *Taker) ended(take *usage.Take, took usage.Took, err error, waits bool) (usage.Took, error) {
	if err == nil && !took.Decided {
		err = cmp.Or(t.Undecided, ErrUndecided)
	}
	switch {
	case err == nil && take.Spent == usage.SpentApart:
		t.answers.settles(accountOf(take))
	case err != nil && take.Spent == usage.SpentNot && waits:
		t.answers.fails(accountOf(take))
	}
	if err != nil {
		took = usage.Took{}
	}
	return took, err
}

func (t *Taker) take(ctx context.Context, take usage.Take, timeout time.Duration) (took usage.Took, err error) {
	owner := t.Placement.Owner(take.Key)
	switch {
	case owner == "":
		return took, rpc.ErrNoOwner
	case t.Local == nil || owner != t.Self:
		return t.leaveable(ctx, take, queueID{owner, t.orDefault(timeout)})
	}
	defer rpc.Recovered(&err)
	t.answers.fill(t.now(), &take)
	take.Here = true
	took, by := t.Local.TakeHere(t.Host, take)
	t.answers.record(t.now(), accountOf(&take), took, by)
	return took, nil
}

// shortTimeout is the longest timeout for which TakeWithin does not return when ctx
// ends before the answer is there.
const shortTimeout = 100 * time.Millisecond

// leaveable asks the owner. If the timeout is long, it returns when ctx ends, and
// gives back what the owner takes later.
func (t *Taker) leaveable(ctx context.Context, take usage.Take, at queueID) (usage.Took, error) {
	if at.timeout <= shortTimeout || ctx.Done() == nil || t.simulation != nil {
		return t.askAt(at, take)
	}
	type answer struct {
		took usage.Took
		err  error
	}
	answers := make(chan answer, 1)
	var left atomic.Bool // set by whichever is first: the caller that gives up, or the answer
	go func() {
		took, err := t.askAt(at, take)
		if answers <- (answer{took, err}); !left.CompareAndSwap(false, true) && err == nil && took.OK {
			// An error leaves the tokens taken, as that of an answer does.
			if back := take.Opposite(&took); back.Tokens != 0 {
				_, _ = t.TakeWithin(context.Background(), back, at.timeout)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.took, a.err
	case <-ctx.Done():
	}
	if left.CompareAndSwap(false, true) {
		return usage.Took{}, ctx.Err()
	}
	a := <-answers
	return a.took, a.err
}

// askAt waits in the queue called id.
func (t *Taker) askAt(id queueID, take usage.Take) (took usage.Took, err error) {
	for {
		if took, err = t.queues.queue(id, t).take(t, take); !errors.Is(err, errForgotten) {
			return took, err
		}
	}
}

// Close ends the calls that only withdraw, and waits for them; there are no more
// of them. Takes go on.
func (t *Taker) Close() { t.undoing.close() }

// number is the Taker's own, at random and not 0.
func (t *Taker) number() uint64 {
	if n := t.own.Load(); n != 0 {
		return n
	}
	t.own.CompareAndSwap(0, rand.Uint64()|1)
	return t.own.Load()
}

// Send sends rows to their owners as they are, without waiting for others to share
// the call, and without what owners answered before: when buckets move from one
// owner to another. The error joins what went wrong at each owner.
func (t *Taker) Send(ctx context.Context, rows []usage.Take) error {
	var errs []error
	parts := fan.Split(len(rows), takesPerCall, t.Placement,
		func(i int) string { return rows[i].Key }, func(i int) int { return len(rows[i].Key) })
	fan.Each(len(parts), func(i int) (usage.Taken, error) {
		payload, err := usage.EncodeTakes(&usage.Takes{Rows: fan.Pick(rows, parts[i].Rows)})
		if err != nil {
			return usage.Taken{}, err
		}
		var taken usage.Taken
		return taken, t.ask(ctx, "hand over the buckets of", queueID{parts[i].Owner, t.orDefault(0)}, payload, len(parts[i].Rows), &taken)
	}, func(_ int, _ usage.Taken, err error) { errs = append(errs, err) })
	return errors.Join(errs...)
}

// orDefault is timeout, or the Taker's own.
func (t *Taker) orDefault(timeout time.Duration) time.Duration {
	switch {
	case timeout > 0:
		return timeout
	case t.Timeout > 0:
		return t.Timeout
	}
	return DefaultTimeout
}

// ask makes one call, of so many rows. what is what the call does to keys, for errors.
func (t *Taker) ask(ctx context.Context, what string, to queueID, payload *anypb.Any, rows int, taken *usage.Taken) error {
	if t.simulation != nil {
		answer, err := t.simulation.Ask(to.owner, to.timeout, payload)
		if err != nil {
			return err
		}
		return usage.DecodeTaken(answer, rows, taken)
	}
	return fan.Call(ctx, what, rows, "", to.owner, to.timeout, func(ctx context.Context) error {
		peer, err := t.Peers.Peer(to.owner)
		if err != nil {
			return err
		}
		answer, err := rpc.Ask(ctx, peer, t.Host, payload)
		if err != nil {
			return err
		}
		return usage.DecodeTaken(answer, rows, taken)
	})
}
