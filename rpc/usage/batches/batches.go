// SPDX-License-Identifier: Apache-2.0

// Package batches remembers batches of takes whose callers may not have received the answer, at an
// owner of keys and at an edge. A batch that is delivered twice takes once, and a batch that is
// withdrawn gives back what it took. The package knows nothing of keys and rules. One lock guards
// all batches, and is not held while one is served.
package batches

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Errors of Serve, for callers that do not wait for the answer any more.
var (
	errSettled   = errors.New("rpc: these takes were settled before they came")
	errWithdrawn = errors.New("rpc: these takes were withdrawn meanwhile")
	errNoAnswer  = errors.New("rpc: these takes were not served to the end")
)

const (
	// maxCallers bounds how many callers' batches are remembered, maxBatches how many
	// batches of one caller, and maxBytes the bytes of all batches. The oldest make room:
	// so a flood shortens for how long batches are known, and new ones are known all the
	// same.
	maxCallers = 1 << 14
	maxBatches = 2 * rpc.MaxWithdrawn
	maxBytes   = 16 << 20
	// forgottenAfter is after how long a batch is forgotten: no message is under way for
	// as long.
	forgottenAfter = time.Minute
)

// Memory serves batches, and remembers them. The zero Memory is ready. It is safe for
// concurrent use.
type Memory struct {
	mu      sync.Mutex // protects following fields, and all that is in them
	callers map[uint64]*caller
	all     list.List // of *batch, the oldest first
	bytes   int       // of all batches
}

// caller is one caller's batches, of which there is at least one.
type caller struct {
	id      uint64
	settled uint64 // batches before it do not come any more
	batches []*batch
}

// batch is one message of takes.
type batch struct {
	number    uint64
	came      time.Duration
	of        *caller
	at        *list.Element // among all; nil: it is not remembered
	undo      []usage.Take
	answer    []byte        // a message of the type usage.TakenTypeURL; nil: it failed, once it has ended
	ended     bool          // it is not under way any more
	withdrawn bool          // by its caller
	done      chan struct{} // closed when it ends; nil while no other call waits
}

const (
	bytesPerBatch = int(unsafe.Sizeof(batch{})+unsafe.Sizeof(list.Element{})) + 4*8
	bytesPerUndo  = int(unsafe.Sizeof(usage.Take{})) // beside its key
)

// size is how much memory b takes.
func (b *batch) size() int {
	bytes := bytesPerBatch + len(b.answer) + len(b.undo)*bytesPerUndo
	for i := range b.undo {
		bytes += len(b.undo[i].Key)
	}
	return bytes
}

// Serve returns the answer of serve, which serves t, or that of an earlier call: then
// again is true. Serve returns the rows that undo what it took, too. They are handed to
// undo if the caller does not get the answer.
func (m *Memory) Serve(ctx context.Context, now time.Duration, t *usage.Takes, serve func() ([]usage.Take, *anypb.Any, error), undo func([]usage.Take)) (answer *anypb.Any, again bool, err error) {
	for {
		b, again, err := m.begin(now, t)
		if err != nil {
			return nil, true, err
		}
		if again { // if that call fails, this one serves the batch
			if answer, err := m.wait(ctx, b); answer != nil || err != nil {
				return answer, true, err
			}
			continue
		}
		answer, err = m.first(t.Caller, b, serve, undo)
		return answer, false, err
	}
}

// first serves b, which has not come before, or failed.
func (m *Memory) first(id uint64, b *batch, serve func() ([]usage.Take, *anypb.Any, error), undo func([]usage.Take)) (answer *anypb.Any, err error) {
	var rows []usage.Take
	err = errNoAnswer // serve may end its goroutine
	defer func() {
		if err = m.end(id, b, rows, answer, err); err != nil {
			answer = nil
			undo(rows)
		}
	}()
	defer rpc.Recovered(&err)
	rows, answer, err = serve()
	return answer, err
}

// begin returns the batch that t is, and whether it has come before and did not fail. The
// batch is nil if its caller has no number.
func (m *Memory) begin(now time.Duration, t *usage.Takes) (b *batch, again bool, err error) {
	if t.Caller == 0 {
		return nil, false, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()

	c := m.callers[t.Caller]
	if c != nil && t.Batch < c.settled {
		return nil, false, errSettled
	}
	switch b = c.find(t.Batch); {
	case b == nil:
		b = &batch{number: t.Batch}
		c = m.keepLocked(now, t.Caller, b)
	case b.failed():
		b.ended, b.done = false, nil
	default:
		again = true
	}
	if t.Settled > c.settled {
		c.settled = t.Settled
		for _, old := range slices.Backward(c.batches) { // which m.dropLocked shortens
			if old.number < c.settled {
				m.dropLocked(old)
			}
		}
	}
	m.trimLocked(now)
	return b, again, nil
}

// failed reports whether b ended without an answer, and may be served anew.
func (b *batch) failed() bool { return b.ended && !b.withdrawn && b.answer == nil }

// wait waits until b ends, and returns its answer. If it failed, there is neither an
// answer nor an error.
func (m *Memory) wait(ctx context.Context, b *batch) (*anypb.Any, error) {
	m.mu.Lock()
	if !b.ended && !b.withdrawn && b.done == nil {
		b.done = make(chan struct{})
	}
	done := b.done
	m.mu.Unlock()
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()

	switch {
	case b.withdrawn:
		return nil, errWithdrawn
	case b.answer == nil:
		return nil, nil
	}
	return &anypb.Any{TypeUrl: usage.TakenTypeURL, Value: b.answer}, nil
}

// end ends b, with its answer and the rows that undo it, or with why there is none. If the
// error is not nil, the batch is to be undone.
func (m *Memory) end(id uint64, b *batch, undo []usage.Take, answer *anypb.Any, failed error) error {
	if b == nil {
		return failed
	}
	m.mu.Lock()
	defer m.mu.Unlock()

	b.ended = true
	if b.done != nil {
		close(b.done)
	}
	now := b // or another batch of its number, if b was forgotten
	if b.at == nil {
		now = m.callers[id].find(b.number)
	}
	switch {
	case b.withdrawn || now != nil && now.withdrawn:
		b.withdrawn = true
		return errWithdrawn
	case failed == nil && b.at != nil:
		b.undo, b.answer = undo, answer.GetValue()
		m.bytes += b.size() - bytesPerBatch
		m.trimLocked(b.came)
	}
	return failed
}

// Withdraw returns the rows that undo a batch of a caller, once, and whether it was
// answered here, or withdrawn or settled before. Another batch counts as withdrawn from now on.
func (m *Memory) Withdraw(now time.Duration, id, number uint64) (undo []usage.Take, known bool) {
	if id == 0 {
		return nil, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()

	c := m.callers[id]
	if c != nil && number < c.settled {
		return nil, true
	}
	b := c.find(number)
	if b == nil {
		m.keepLocked(now, id, &batch{number: number, withdrawn: true})
		m.trimLocked(now)
		return nil, false
	}
	known = b.ended && !b.failed() || b.withdrawn
	if !b.withdrawn {
		m.bytes -= b.size() - bytesPerBatch
		undo, b.undo, b.answer, b.withdrawn = b.undo, nil, nil, true
	}
	return undo, known
}

// find is c's batch of this number, or nil. A nil caller has none.
func (c *caller) find(number uint64) *batch {
	if c == nil {
		return nil
	}
	for _, b := range c.batches {
		if b.number == number {
			return b
		}
	}
	return nil
}

// keepLocked remembers b, which came at now from the caller called id.
func (m *Memory) keepLocked(now time.Duration, id uint64, b *batch) *caller {
	c := m.callers[id]
	if c == nil {
		if m.callers == nil {
			m.callers = make(map[uint64]*caller)
		}
		c = &caller{id: id}
		m.callers[id] = c
	}
	b.came, b.of = now, c
	b.at, m.bytes = m.all.PushBack(b), m.bytes+bytesPerBatch
	if c.batches = append(c.batches, b); len(c.batches) > maxBatches {
		m.dropLocked(c.batches[0])
	}
	return c
}

// trimLocked forgets batches that are too old or too many, the oldest first.
func (m *Memory) trimLocked(now time.Duration) {
	for {
		first := m.all.Front()
		if first == nil {
			return
		}
		b, _ := first.Value.(*batch)
		if m.bytes <= maxBytes && len(m.callers) <= maxCallers && now-b.came <= forgottenAfter {
			return
		}
		m.dropLocked(b)
	}
}

// dropLocked forgets b, and its caller with the last batch.
func (m *Memory) dropLocked(b *batch) {
	m.all.Remove(b.at)
	b.at, m.bytes = nil, m.bytes-b.size()
	c := b.of
	c.batches = slices.DeleteFunc(c.batches, func(one *batch) bool { return one == b })
	switch n := len(c.batches); {
	case n == 0:
		delete(m.callers, c.id)
	case cap(c.batches) > 4*(n+1): // no batch counts for that room any more
		c.batches = slices.Clone(c.batches)
	}
}

// Opposites undo the rows that moved something, in memory of no more than they need.
// Took are the answers; nil if the rows' Tokens are what they moved.
func Opposites(rows []usage.Take, took []usage.Took) []usage.Take {
	opposite := func(i int) usage.Take {
		if took == nil {
			return rows[i].Opposite(&usage.Took{OK: true})
		}
		return rows[i].Opposite(&took[i])
	}
	moved := 0
	for i := range rows {
		if opposite(i).Tokens != 0 {
			moved++
		}
	}
	undo := make([]usage.Take, 0, moved)
	for i := range rows {
		back := opposite(i)
		switch last := len(undo) - 1; {
		case back.Tokens == 0:
			continue
		case last >= 0 && undo[last].Key == back.Key:
			back.Key = undo[last].Key
		default:
			back.Key = strings.Clone(back.Key) // the keys of a message share one string
		}
		undo = append(undo, back)
	}
	return undo
}
