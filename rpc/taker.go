// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Errors of a Taker. Nothing was taken; what its owner may have taken without
// an answer is given back there.
var (
	// ErrBusy is that too many takes wait for the same owner.
	ErrBusy = errors.New("rpc: too many takes wait for this owner")
	// ErrSilent is that the owner did not answer several times, and is asked
	// again only now and then.
	ErrSilent = errors.New("rpc: this owner has not answered lately")
	// ErrUndecided is that the owner has no bucket for the key: no such rule,
	// no room, or it is about to leave.
	ErrUndecided = errors.New("rpc: the owner of this key does not decide it")
)

// Defaults of a Taker.
const (
	// DefaultTakeTimeout is some tens of round trips within a data centre, and
	// outlasts a pause of the garbage collector or of the scheduler; whoever
	// waits for an answer cannot spare much more.
	DefaultTakeTimeout = 20 * time.Millisecond
	// DefaultTakeWindow is the longest that a take waits for company.
	DefaultTakeWindow = 500 * time.Microsecond
	// DefaultMaxQueue is how many takes may wait for one owner.
	DefaultMaxQueue = 8192
)

const (
	takesPerCall  = 1024 // so that a call is far from its timeout
	callsPerOwner = 4    // at once
	silentAfter   = 3    // calls without an answer in a row
	probeEvery    = 100 * time.Millisecond
	maxOwners     = 1024 // whose queues are kept though they are empty

	// underWayFor is for how long a message that nobody waits for may be under
	// way.
	underWayFor = time.Minute
)

// Keeper keeps the buckets of the keys that this very host owns.
type Keeper interface {
	// TakeHere takes one row, and returns the keeper's number too.
	TakeHere(t Take) (took Took, by uint32)
}

// Taker takes tokens from the buckets of the owners of keys, one event at a
// time, for many callers at once. Those who come while a call to the same
// owner is under way share the next one, which leaves when that one is back,
// or after Window. What this host owns itself is decided in process.
//
// No goroutine is started: the callers make the calls. A call that is not
// answered fails those in it, and the next call withdraws it. After several of
// them, takes from that owner fail at once, but for one now and then.
//
// Its fields do not change once it is in use. Safe for concurrent use.
type Taker struct {
	// Host names the asking host.
	Host string

	// Placement says who owns which key.
	Placement Placement

	// Peers finds the owners.
	Peers Peers

	// Self is the address under which the Placement knows this very host,
	// and Local what keeps its buckets. A nil Local: ask by way of Peers.
	Self  string
	Local Keeper

	// Timeout bounds each call; default DefaultTakeTimeout. Higher means
	// fewer takes that fail when the owner is slow, which wait for longer.
	Timeout time.Duration

	// Window is how long a take waits for company at most while another call
	// is under way; default DefaultTakeWindow. Higher means fewer calls.
	Window time.Duration

	// MaxQueue bounds the takes that wait for one owner; default
	// DefaultMaxQueue. Those of more fail at once.
	MaxQueue int

	caller  atomic.Uint64
	owners  sync.Map // address to *takeQueue
	count   atomic.Int64
	used    atomic.Uint64 // numbers of batches below it, by queues that are forgotten
	told    toldKeys
	waiting sync.Pool
	batches sync.Pool
}

// Take takes from the bucket of t's key, at its owner. Of t, who told what is
// the Taker's to fill in. It returns within twice Timeout, whenever ctx ends,
// and nothing was taken if there is an error.
//
// Tokens that are SpentBeyond, of a key whose takes failed since the last such
// call, are SpentApart: a fallback let them through.
func (t *Taker) Take(ctx context.Context, take Take) (Took, error) {
	if err := ctx.Err(); err != nil {
		return Took{}, err
	}
	if err := take.check(0); err != nil {
		return Took{}, err
	}
	if take.Spent == SpentBeyond && t.told.failed(take.account()) {
		take.Spent = SpentApart
	}
	took, err := t.take(take)
	switch {
	case err == nil && !took.Decided:
		err = ErrUndecided
		fallthrough
	case err != nil:
		if take.Spent == SpentNot {
			t.told.fails(take.account())
		}
		return Took{}, err
	}
	if take.Spent == SpentApart {
		t.told.settles(take.account())
	}
	return took, nil
}

func (t *Taker) take(take Take) (took Took, err error) {
	owner := t.Placement.Owner(take.Key)
	switch {
	case owner == "":
		return took, ErrNoOwner
	case t.Local == nil || owner != t.Self:
		for {
			if took, err = t.queue(owner).take(t, take); !errors.Is(err, errForgotten) {
				return took, err
			}
		}
	}
	defer recovered(&err)
	t.told.fill(clock(), &take)
	took, by := t.Local.TakeHere(take)
	t.told.hear(clock(), take.account(), took, by)
	return took, nil
}

// queue finds or makes the queue of an owner.
func (t *Taker) queue(owner string) *takeQueue {
	if q, ok := t.owners.Load(owner); ok {
		if q, ok := q.(*takeQueue); ok {
			return q
		}
	}
	if t.count.Add(1) > maxOwners {
		t.owners.Range(func(address, q any) bool {
			if q, ok := q.(*takeQueue); ok {
				t.forget(address, q)
			}
			return true
		})
	}
	q, had := t.owners.LoadOrStore(owner, newTakeQueue(owner))
	if had {
		t.count.Add(-1)
	}
	made, _ := q.(*takeQueue) // nothing else is stored
	return made
}

// forget forgets the queue of the owner at address, if nobody needs it. Batches
// of a later one for the same owner follow those of q.
func (t *Taker) forget(address any, q *takeQueue) {
	next, ok := q.forget()
	if !ok {
		return
	}
	for used := t.used.Load(); used < next && !t.used.CompareAndSwap(used, next); used = t.used.Load() {
	}
	if t.owners.CompareAndDelete(address, q) {
		t.count.Add(-1)
	}
}

// number is the Taker's own, at random and not 0.
func (t *Taker) number() uint64 {
	if n := t.caller.Load(); n != 0 {
		return n
	}
	t.caller.CompareAndSwap(0, rand.Uint64()|1)
	return t.caller.Load()
}

// Send sends rows to their owners as they are, without company and without
// what was told: when buckets move from one owner to another. It returns what
// went wrong, by owner.
func (t *Taker) Send(ctx context.Context, rows []Take) error {
	parts := make(map[string][]Take)
	var errs []error
	for _, row := range rows {
		owner := t.Placement.Owner(row.Key)
		parts[owner] = append(parts[owner], row)
		if len(parts[owner]) == takesPerCall {
			errs = append(errs, t.send(ctx, owner, parts[owner]))
			parts[owner] = nil
		}
	}
	for owner, part := range parts {
		if len(part) > 0 {
			errs = append(errs, t.send(ctx, owner, part))
		}
	}
	return errors.Join(errs...)
}

func (t *Taker) send(ctx context.Context, owner string, rows []Take) error {
	var taken Taken
	if owner == "" {
		return ErrNoOwner
	}
	return t.ask(ctx, owner, &Takes{Rows: rows}, &taken)
}

func (t *Taker) timeout() time.Duration {
	if t.Timeout > 0 {
		return t.Timeout
	}
	return DefaultTakeTimeout
}

// ask makes one call.
func (t *Taker) ask(ctx context.Context, owner string, takes *Takes, taken *Taken) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("take %d times at %q: %w", len(takes.Rows), owner, err)
		}
	}()
	defer recovered(&err)
	ctx, cancel := context.WithTimeout(ctx, t.timeout())
	defer cancel()
	payload, err := EncodeTakes(takes)
	if err != nil {
		return err
	}
	peer, err := t.Peers.Peer(owner)
	if err != nil {
		return err
	}
	if payload, err = Ask(ctx, peer, t.Host, payload); err != nil {
		return err
	}
	return DecodeTaken(payload, len(takes.Rows), taken)
}
