// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/internal/fan"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/batches"
)

// Forward answers Takes for any key, whoever owns it, by asking the
// owners. Takes whose owner does not answer are not decided; the caller falls back
// for those keys, and for no others.
//
// The rows for other owners are asked for at once, and may be served in any
// order. A new owner of a key learns from the last answer that the Taker got, or
// else from the last one that the caller got.
//
// A batch that is delivered twice takes once, at the same edge, and both get the same
// answer. Forward undoes a batch whose caller has given up. It also undoes a batch whose
// answer was lost, when the caller withdraws it here or at another edge of the
// cluster: see Others. So a caller numbers its batches for all edges of a cluster
// together. Its fields do not change once it is in use, and
// it is not copied. Safe for concurrent use.
type Forward struct {
	// Taker asks the owners.
	Taker *Taker

	// Timeout, when not nil, is the ask_timeout of a key's rule; 0 or nil: the
	// Taker's Timeout. Callers wait for twice that at most, and as long again for
	// batches that they withdraw, so their own timeout should be longer.
	Timeout func(key string) time.Duration

	// MaxWait, when not nil, is the longest that a take of a key may wait for its
	// tokens, whatever its caller says: callers would close a key without a bound.
	// nil: the owner's rule alone bounds it.
	MaxWait func(key string) time.Duration

	// Others, when not nil, are the addresses of the other hosts with an edge,
	// as the Taker's Peers know them. They serve Withdrawn, and are asked to
	// undo what was not answered here. nil: that stays taken.
	Others func() []string

	// Served, when not nil, is called with takes once they are served, and with those that
	// undo others, from any goroutine. The slices are the caller's once Served returns.
	Served func(rows []usage.Take, took []usage.Took)

	answered  batches.Memory
	spreading atomic.Int64 // messages to Others
}

var _ rpc.Decider = (*Forward)(nil)

// Update asks the owners of the keys in payload, which is Takes. The caller's name
// does not matter. The errors are ErrPayload, ctx's, or that the caller has given up.
func (f *Forward) Update(ctx context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	var takes usage.Takes
	if err := usage.DecodeTakes(payload, &takes); err != nil {
		return nil, err
	}
	// An edge that died may be an owner too: wait for both at the same time.
	var elsewhere sync.WaitGroup
	defer elsewhere.Wait()
	if unknown := f.withdraw(takes.Caller, takes.Withdrawn); len(unknown) > 0 && f.Others != nil {
		elsewhere.Go(func() { f.withdrawElsewhere(takes.Caller, unknown, f.longest(takes.Rows)) })
	}
	answer, _, err := f.answered.Serve(ctx, f.Taker.now(), &takes, func() ([]usage.Take, *anypb.Any, error) {
		taken := usage.Taken{Rows: make([]usage.Took, len(takes.Rows))}
		f.take(ctx, takes.Rows, taken.Rows)
		elsewhere.Wait()
		taken.By = f.by(takes.Rows, taken.Rows)
		answer, err := usage.EncodeTaken(&taken, len(takes.Rows))
		return batches.Opposites(takes.Rows, taken.Rows), answer, cmp.Or(err, ctx.Err())
	}, f.undo)
	if err != nil {
		return nil, fmt.Errorf("take %d times: %w", len(takes.Rows), err)
	}
	return answer, nil
}

// take fills in the answer to each row. Rows for this very host do not wait, and
// so need no goroutine.
func (f *Forward) take(ctx context.Context, rows []usage.Take, took []usage.Took) {
	t := f.Taker
	// So the caller gets the rows that were answered though others were not.
	ctx, cancel := context.WithTimeout(ctx, fan.Within(ctx, rpc.MaxWait))
	defer cancel()
	one := func(i int, timeout time.Duration) {
		// An error is a row that is not decided.
		took[i], _ = t.within(ctx, rows[i], timeout)
	}
	now := t.now()
	var others sync.WaitGroup
	for i := range rows {
		rows[i].More, rows[i].Wants = 0, 0                        // what is lent is the reporting host's
		rows[i].Handed, rows[i].Rates, rows[i].Kept = false, 0, 0 // programs own no keys
		f.bound(&rows[i])
		t.answers.learn(now, &rows[i])
		switch {
		case t.Local != nil && t.Placement.Owner(rows[i].Key) == t.Self:
			one(i, 0) // no other host is asked
		case len(rows) == 1:
			one(i, f.timeout(rows[i].Key))
		default:
			others.Go(func() { one(i, f.timeout(rows[i].Key)) })
		}
	}
	others.Wait()
	if f.Served != nil {
		f.Served(rows, took)
	}
}

// bound has take wait no longer than it may.
func (f *Forward) bound(take *usage.Take) {
	if f.MaxWait == nil || take.Longest == 0 {
		return
	}
	if most := f.MaxWait(take.Key); take.Longest < 0 || take.Longest > most {
		take.Longest = most
	}
}

// timeout is how long to wait for the answer about key.
func (f *Forward) timeout(key string) time.Duration {
	if f.Timeout == nil {
		return f.Taker.orDefault(0)
	}
	return f.Taker.orDefault(f.Timeout(key))
}

// longest is the longest timeout of the keys in rows.
func (f *Forward) longest(rows []usage.Take) (longest time.Duration) {
	for i := range rows {
		longest = max(longest, f.timeout(rows[i].Key))
	}
	return longest
}

// by is the number of the owner that decided, or this host's own number if there
// is more than one. Then an owner may learn from an answer of its own, which does
// not give more.
func (f *Forward) by(rows []usage.Take, took []usage.Took) uint32 {
	var by uint32
	for i := range rows {
		if !took[i].Decided {
			continue
		}
		switch last := f.Taker.answers.by(accountOf(&rows[i])); {
		case last == 0, by != 0 && last != by:
			return f.own()
		default:
			by = last
		}
	}
	if by == 0 {
		return f.own()
	}
	return by
}

// own is this host's number.
func (f *Forward) own() uint32 { return uint32(f.Taker.number()) | 1 }

// undo takes rows, each at the owner that it has by now: as many at once as a message may have.
func (f *Forward) undo(rows []usage.Take) {
	for part := range slices.Chunk(rows, rpc.MaxTakes) {
		f.take(context.Background(), part, make([]usage.Took, len(part)))
	}
}

// learn notes the last answer that take's caller got, if there is no other one.
func (k *lastAnswers) learn(now time.Duration, take *usage.Take) {
	if take.By == 0 {
		return
	}
	p, h := k.part(accountOf(take))
	defer p.mu.Unlock()

	if t := p.find(h); t.by == 0 {
		p.put(h, lastAnswer{take.Told, now - take.Ago, take.By, t.failed})
	}
}

// by is the number of the owner that answered last, or 0 if it is not known.
func (k *lastAnswers) by(of account) uint32 {
	p, h := k.part(of)
	defer p.mu.Unlock()

	return p.find(h).by
}
