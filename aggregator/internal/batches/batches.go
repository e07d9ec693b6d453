// SPDX-License-Identifier: Apache-2.0

// Package batches remembers batches of takes whose callers may not have heard the
// answer. A batch that is delivered twice takes once, and a batch that is withdrawn
// gives back what it took. The package knows nothing of keys and rules.
package batches

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// errSettled is the answer to a batch that its caller does not wait for any more.
var errSettled = errors.New("the batch was withdrawn, or settled, before it came")

const (
	// maxCallers bounds how many callers' batches are remembered. Those of
	// more are served, and not known again.
	maxCallers = 1 << 14
	// maxBatches bounds how many batches of one caller are.
	maxBatches = 2 * rpc.MaxWithdrawn
	// maxRemembered bounds the bytes of all batches that are remembered. More
	// are served, and not known again.
	maxRemembered = 64 << 20
	// callerGone is after how long a silent caller is forgotten: no message is
	// under way for as long.
	callerGone = time.Minute
)

// Memory serves batches, and remembers them. Its exported fields do not change once it
// is in use. It is safe for concurrent use.
type Memory struct {
	// Take serves takes of host, and puts the answers into taken. The Tokens of each
	// row become what it took.
	Take func(now time.Duration, host string, takes *usage.Takes, taken *usage.Taken)

	// Undo gives back what rows took.
	Undo func(now time.Duration, rows []usage.Take)

	remembered atomic.Int64 // bytes of all batches

	mu  sync.Mutex // protects following field
	all map[uint64]*caller
}

// caller is one caller's batches.
type caller struct {
	remembered *atomic.Int64 // of all callers

	mu      sync.Mutex    // protects following fields
	gone    bool          // it is forgotten, and not to be used
	seen    time.Duration // last
	settled uint64        // batches before it do not come any more
	batches []*batch
}

// batch is one message of takes.
type batch struct {
	number    uint64
	withdrawn bool
	bytes     int64       // what it takes to remember it
	takes     usage.Takes // with what they took
	taken     usage.Taken
}

var scratch = sync.Pool{New: func() any { return new(batch) }}

// enter finds or makes the caller called id, and locks it; nil if there are too many.
func (m *Memory) enter(now time.Duration, id uint64) *caller {
	for {
		if c := m.find(now, id); c == nil || c.lock() {
			return c
		}
	}
}

// lock locks c unless c was forgotten meanwhile.
func (c *caller) lock() bool {
	c.mu.Lock()
	gone := c.gone
	if gone {
		c.mu.Unlock()
	}
	return !gone
}

// find finds or makes the caller called id; nil if there are too many.
func (m *Memory) find(now time.Duration, id uint64) *caller {
	m.mu.Lock()
	defer m.mu.Unlock()

	found := m.all[id]
	if found == nil && len(m.all) < maxCallers {
		if m.all == nil {
			m.all = make(map[uint64]*caller)
		}
		found = &caller{remembered: &m.remembered, seen: now}
		m.all[id] = found
	}
	return found
}

// Expire forgets callers that have been silent for long.
func (m *Memory) Expire(now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()

	for id, c := range m.all {
		if c.expire(now) {
			delete(m.all, id)
		}
	}
}

// expire forgets the batches of a caller that is gone.
func (c *caller) expire(now time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()

	if c.gone = now-c.seen > callerGone; c.gone {
		for _, b := range c.batches {
			c.remembered.Add(-b.bytes)
		}
		c.batches = nil
	}
	return c.gone
}

// Serve answers payload, which is takes of host, at now. If its batch has come before,
// the answer is the first one's, and repeated is set. The errors are ErrPayload, or
// that the caller has given the batch up.
func (m *Memory) Serve(now time.Duration, host string, payload *anypb.Any) (answer *anypb.Any, repeated bool, err error) {
	b, ok := scratch.Get().(*batch)
	if !ok {
		b = new(batch)
	}
	defer scratch.Put(b)
	if err := usage.DecodeTakes(payload, &b.takes); err != nil {
		return nil, false, err
	}
	var c *caller
	if b.takes.Caller != 0 {
		c = m.enter(now, b.takes.Caller)
	}
	if c == nil {
		m.Take(now, host, &b.takes, &b.taken)
		answer, err = usage.EncodeTaken(&b.taken, len(b.takes.Rows))
		return answer, false, err
	}
	defer c.mu.Unlock()
	return m.once(now, host, c, b)
}

// once serves b, of which c keeps what it takes to recognize it, unless c has
// sent it before.
func (m *Memory) once(now time.Duration, host string, c *caller, b *batch) (answer *anypb.Any, repeated bool, err error) {
	c.seen = max(c.seen, now)
	b.number, b.withdrawn = b.takes.Batch, false
	c.settle(b.takes.Settled)
	for _, number := range b.takes.Withdrawn {
		m.withdraw(now, c, number)
	}
	before := c.batch(b.number)
	switch {
	case before != nil && before.withdrawn:
		return nil, true, errSettled
	case before != nil:
		answer, err = usage.EncodeTaken(&before.taken, len(before.taken.Rows))
		return answer, true, err
	case b.number < c.settled:
		return nil, false, errSettled
	}
	m.Take(now, host, &b.takes, &b.taken)
	c.keep(b.copy())
	answer, err = usage.EncodeTaken(&b.taken, len(b.takes.Rows))
	return answer, false, err
}

// copy is b in memory of its own, of no more than it needs: b is used again.
func (b *batch) copy() *batch {
	rows := slices.Clone(b.takes.Rows)
	bytes := batchBytes + len(rows)*bytesPerRow
	for i := range rows {
		if i == 0 || unsafe.StringData(rows[i].Key) != unsafe.StringData(rows[i-1].Key) {
			bytes += len(rows[i].Key)
		}
	}
	return &batch{
		number: b.number, bytes: int64(bytes),
		takes: usage.Takes{Rows: rows}, taken: usage.Taken{By: b.taken.By, Rows: slices.Clone(b.taken.Rows)},
	}
}

const (
	// bytesPerRow is what a row takes beside its key, and batchBytes what a
	// batch takes beside its rows.
	bytesPerRow = int(unsafe.Sizeof(usage.Take{}) + unsafe.Sizeof(usage.Took{}))
	batchBytes  = int(unsafe.Sizeof(batch{})) + 2*8
)

// withdraw undoes what a batch took, whether it has come or will come.
func (m *Memory) withdraw(now time.Duration, c *caller, number uint64) {
	if number < c.settled {
		return
	}
	b := c.batch(number)
	switch {
	case b == nil:
		c.keep(&batch{number: number, withdrawn: true, bytes: int64(batchBytes)})
		return
	case b.withdrawn:
		return
	}
	m.Undo(now, b.takes.Rows)
	c.remembered.Add(int64(batchBytes) - b.bytes)
	*b = batch{number: number, withdrawn: true, bytes: int64(batchBytes)}
}

func (c *caller) batch(number uint64) *batch {
	for _, b := range c.batches {
		if b.number == number {
			return b
		}
	}
	return nil
}

// keep remembers b, in place of the first if there are too many; not if there is
// no room.
func (c *caller) keep(b *batch) {
	if c.remembered.Add(b.bytes) > maxRemembered {
		c.remembered.Add(-b.bytes)
		return
	}
	if len(c.batches) >= maxBatches {
		c.remembered.Add(-c.batches[0].bytes)
		c.batches = slices.Delete(c.batches, 0, 1)
	}
	c.batches = append(c.batches, b)
}

// settle forgets batches before number.
func (c *caller) settle(number uint64) {
	if number <= c.settled {
		return
	}
	c.settled = number
	c.batches = slices.DeleteFunc(c.batches, func(b *batch) bool {
		if b.number >= number {
			return false
		}
		c.remembered.Add(-b.bytes)
		return true
	})
}
