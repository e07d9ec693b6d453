// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
)

// ForwardTakes answers Takes for any key, whoever owns it, by asking the
// owners: what Forward is to Usage. Takes whose owner does not answer are not
// decided; who asked falls back for those keys, and for no others.
//
// The rows for other owners are asked for at once, and may be served in any
// order. What the Taker was told of a key, it tells a new owner; of keys that
// it knows nothing about, what the caller was told.
//
// A batch whose caller does not wait for the answer any more is undone, and so
// is one that is withdrawn, here or at another edge of the cluster, because its
// answer was lost: see Others. So a caller numbers its batches for all edges of a
// cluster together. Its fields do not change once it is in use, and
// it is not copied. Safe for concurrent use.
type ForwardTakes struct {
	// Taker asks the owners.
	Taker *Taker

	// Timeout, when not nil, is the ask_timeout of a key's rule; 0 or nil: the
	// Taker's Timeout. Callers wait for twice that at most, so their own
	// timeout should be longer.
	Timeout func(key string) time.Duration

	// Others, when not nil, are the addresses of the other hosts with an edge,
	// as the Taker's Peers know them. They serve Withdrawn, and are asked to
	// undo what was not answered here. nil: that stays taken.
	Others func() []string

	answered  answeredTakes
	spreading atomic.Int64 // messages to Others
}

var _ Decider = (*ForwardTakes)(nil)

// errWithdrawn: the caller does not wait for this answer any more.
var errWithdrawn = errors.New("rpc: these takes were withdrawn meanwhile")

// Update asks the owners of the keys in payload, which is Takes. Who calls does
// not matter. The errors are ErrPayload, ctx's, or that nobody waits any more.
func (f *ForwardTakes) Update(ctx context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
	var takes Takes
	if err := DecodeTakes(payload, &takes); err != nil {
		return nil, err
	}
	// An edge that died may be an owner too, and nobody waits for both in turn.
	var elsewhere sync.WaitGroup
	if unknown := f.withdraw(takes.Caller, takes.Withdrawn); len(unknown) > 0 && f.Others != nil {
		elsewhere.Go(func() { f.withdrawElsewhere(takes.Caller, unknown, f.longest(takes.Rows)) })
	}
	taken := Taken{Rows: make([]Took, len(takes.Rows))}
	f.take(ctx, takes.Rows, taken.Rows)
	elsewhere.Wait()

	// Those that nobody hears of are undone, by whoever finds them first: this
	// call, or one that withdraws them.
	id := takeID{takes.Caller, takes.Batch}
	if rows := opposites(takes.Rows, taken.Rows); !f.answered.add(id, rows) {
		f.undo(rows)
		return nil, fmt.Errorf("take %d times: %w", len(takes.Rows), errWithdrawn)
	}
	if err := ctx.Err(); err != nil {
		f.undo(f.answered.remove(id))
		return nil, fmt.Errorf("take %d times: %w", len(takes.Rows), err)
	}
	taken.By = f.by(takes.Rows, taken.Rows)
	return EncodeTaken(&taken, len(takes.Rows))
}

// take fills in what became of each row. Rows for this very host do not wait,
// and so need no goroutine.
func (f *ForwardTakes) take(ctx context.Context, rows []Take, took []Took) {
	t := f.Taker
	ctx, cancel := beforeItsEnd(ctx)
	defer cancel()
	one := func(i int, timeout time.Duration) {
		// An error is a row that is not decided.
		took[i], _ = t.TakeWithin(ctx, rows[i], timeout)
	}
	now := clock()
	var others sync.WaitGroup
	for i := range rows {
		t.told.learn(now, &rows[i])
		switch {
		case t.Local != nil && t.Placement.Owner(rows[i].Key) == t.Self:
			one(i, 0) // nobody is asked
		case len(rows) == 1:
			one(i, f.timeout(rows[i].Key))
		default:
			others.Go(func() { one(i, f.timeout(rows[i].Key)) })
		}
	}
	others.Wait()
}

// beforeItsEnd ends some time before ctx does, so that the caller hears of the
// rows that were answered though others were not.
func beforeItsEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, until(deadline)*4/5)
}

// timeout is how long to wait for the answer about key.
func (f *ForwardTakes) timeout(key string) time.Duration {
	if f.Timeout == nil {
		return f.Taker.orDefault(0)
	}
	return f.Taker.orDefault(f.Timeout(key))
}

// longest is the longest timeout of the keys in rows.
func (f *ForwardTakes) longest(rows []Take) (longest time.Duration) {
	for i := range rows {
		longest = max(longest, f.timeout(rows[i].Key))
	}
	return longest
}

// by is the number of the owner that decided, or this host's own where there
// is more than one: an owner then learns from what its caller was told, though
// it was the one who told it, which does not give more.
func (f *ForwardTakes) by(rows []Take, took []Took) uint32 {
	var by uint32
	for i := range rows {
		if !took[i].Decided {
			continue
		}
		switch told := f.Taker.told.by(rows[i].account()); {
		case told == 0, by != 0 && told != by:
			return f.own()
		default:
			by = told
		}
	}
	if by == 0 {
		return f.own()
	}
	return by
}

// own is this host's number.
func (f *ForwardTakes) own() uint32 { return uint32(f.Taker.number()) | 1 }

// undo takes rows, each at the owner that it has by now.
func (f *ForwardTakes) undo(rows []Take) {
	if len(rows) > 0 {
		f.take(context.Background(), rows, make([]Took, len(rows)))
	}
}

// opposites undo the rows that moved something. There is no room for others: an edge
// remembers them by their number.
func opposites(rows []Take, took []Took) []Take {
	moved := 0
	for i := range rows {
		if rows[i].moved(&took[i]) != 0 {
			moved++
		}
	}
	undo := make([]Take, 0, moved)
	for i := range rows {
		if back := rows[i].opposite(&took[i]); back.Tokens != 0 {
			// The keys of a message share one string, which is not to be kept.
			back.Key = strings.Clone(back.Key)
			undo = append(undo, back)
		}
	}
	return undo
}

// learn notes what take's caller was told of a key that nothing is known of.
func (k *toldKeys) learn(now time.Duration, take *Take) {
	if take.By == 0 {
		return
	}
	p := k.part(take.account())
	defer p.mu.Unlock()

	if t := p.find(take.account()); t.by == 0 {
		p.put(take.account(), told{take.Told, now - take.Ago, take.By, t.failed})
	}
}

// by is who told last; 0: nobody, or it is forgotten.
func (k *toldKeys) by(of account) uint32 {
	p := k.part(of)
	defer p.mu.Unlock()

	return p.find(of).by
}

// takeID names a batch of takes.
type takeID struct{ caller, number uint64 }

// answeredTakes remembers what undoes the last batches that were answered, and those that
// were withdrawn before, until so many rows have come since. The zero
// answeredTakes is ready. Safe for concurrent use.
type answeredTakes struct {
	mu         sync.Mutex // protects following fields
	young, old map[takeID][]Take
	rows       int // of young
}

// maxAnswered is how many rows become old together: some megabytes, or thirty if all
// keys are as long as can be.
const maxAnswered = 32 << 10

// withdrawn stands for the rows of a batch that is withdrawn.
var withdrawn = []Take{{Key: "withdrawn"}}

func isWithdrawn(rows []Take) bool { return len(rows) == 1 && &rows[0] == &withdrawn[0] }

// add remembers the rows that undo a batch; false if it is withdrawn already.
func (a *answeredTakes) add(id takeID, rows []Take) bool {
	if id.caller == 0 {
		return true // nobody withdraws them
	}
	a.mu.Lock()
	defer a.mu.Unlock()

	switch {
	case isWithdrawn(a.findLocked(id)):
		return false
	case len(rows) > 0:
		a.putLocked(id, rows)
	}
	return true
}

// withdraw returns the rows of a batch, once, and whether it was answered. One
// that was not is not to be.
func (a *answeredTakes) withdraw(id takeID) (rows []Take, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()

	rows = a.findLocked(id)
	if isWithdrawn(rows) {
		return nil, true // and elsewhere, if it could be
	}
	a.putLocked(id, withdrawn)
	return rows, rows != nil
}

// remove returns the rows of a batch, once.
func (a *answeredTakes) remove(id takeID) []Take {
	a.mu.Lock()
	defer a.mu.Unlock()

	rows := a.findLocked(id)
	if isWithdrawn(rows) {
		return nil
	}
	delete(a.young, id)
	delete(a.old, id)
	return rows
}

func (a *answeredTakes) findLocked(id takeID) []Take {
	if rows, ok := a.young[id]; ok {
		return rows
	}
	return a.old[id]
}

func (a *answeredTakes) putLocked(id takeID, rows []Take) {
	if a.rows += len(rows); a.rows > maxAnswered || a.young == nil {
		a.old, a.young, a.rows = a.young, make(map[takeID][]Take), len(rows)
	}
	delete(a.old, id)
	a.young[id] = rows
}
