// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"fmt"
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

// callers remembers the batches of takes whose callers may not have heard the
// answer, so that one which comes twice takes once.
type callers struct {
	remembered atomic.Int64 // bytes of their batches

	mu  sync.Mutex // protects following field
	all map[uint64]*caller
}

// caller is one caller's batches.
type caller struct {
	remembered *atomic.Int64 // of all callers

	mu      sync.Mutex    // protects following fields
	gone    bool          // it is forgotten
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

var batches = sync.Pool{New: func() any { return new(batch) }}

// find finds or makes the caller called id; nil if there are too many.
func (c *callers) find(now time.Duration, id uint64) *caller {
	c.mu.Lock()
	defer c.mu.Unlock()

	found := c.all[id]
	if found == nil && len(c.all) < maxCallers {
		if c.all == nil {
			c.all = make(map[uint64]*caller)
		}
		found = &caller{remembered: &c.remembered, seen: now}
		c.all[id] = found
	}
	return found
}

// expire forgets callers that are gone.
func (c *callers) expire(now time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for id, one := range c.all {
		if one.expire(now) {
			delete(c.all, id)
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

// StepTakes is Update for usage.TakesTypeURL at now. Time is as in Step.
func (a *Aggregator) StepTakes(now time.Duration, host string, payload *anypb.Any) (*anypb.Any, error) {
	b, ok := batches.Get().(*batch)
	if !ok {
		b = new(batch)
	}
	if err := usage.DecodeTakes(payload, &b.takes); err != nil {
		batches.Put(b)
		a.refuse(host, "takes", err)
		return nil, fmt.Errorf("aggregator: takes from %q: %w", host, err)
	}
	var c *caller
	if b.takes.Caller != 0 {
		c = a.callers.find(now, b.takes.Caller)
	}
	if c == nil {
		defer batches.Put(b)
		a.Take(now, host, &b.takes, &b.taken)
		return usage.EncodeTaken(&b.taken, len(b.takes.Rows))
	}
	answer, err := a.once(now, host, c, b)
	if err != nil {
		return nil, fmt.Errorf("aggregator: takes from %q: %w", host, err)
	}
	return answer, nil
}

// once serves b, of which c keeps what it takes to recognize it, unless c has
// sent it before.
func (a *Aggregator) once(now time.Duration, host string, c *caller, b *batch) (*anypb.Any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()

	c.seen = max(c.seen, now)
	b.number, b.withdrawn = b.takes.Batch, false
	c.settle(b.takes.Settled)
	for _, number := range b.takes.Withdrawn {
		a.withdraw(now, c, number)
	}
	defer batches.Put(b)
	if before := c.batch(b.number); before != nil {
		a.metrics.repeated.Inc(1)
		if before.withdrawn {
			return nil, errSettled
		}
		return usage.EncodeTaken(&before.taken, len(before.taken.Rows))
	}
	if b.number < c.settled {
		return nil, errSettled
	}
	a.Take(now, host, &b.takes, &b.taken)
	c.keep(b.copy())
	return usage.EncodeTaken(&b.taken, len(b.takes.Rows))
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
func (a *Aggregator) withdraw(now time.Duration, c *caller, number uint64) {
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
	a.undo(now, &b.takes)
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
	if c.gone {
		return
	}
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
