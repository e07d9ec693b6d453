// SPDX-License-Identifier: Apache-2.0

// Package events carries events from where they happen to listeners. Sending
// one never blocks, allocates nothing and may be done with any lock held.
//
//	b := events.New[Event]()
//	b.Listen(func(batch []Event) { … })
//	go b.Run(ctx, slog.Default(), func(n int64) { dropped.Inc(n) })
//
//	b.Send(Event{Key: "k"}) // anywhere
//
// The queue is bounded: events that listeners do not take in as fast as they
// are sent are dropped and counted.
//
// Out of scope: the package does not know what an event says, does not filter
// and keeps no metrics.
package events

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	capacity  = 8192 // events that wait for Run; a power of two
	batchSize = 256
	backlog   = 16 // batches that wait for one listener

	// gatherFor is how long Run lets events gather before it takes them.
	gatherFor = time.Millisecond
)

// Bus carries events of type E to listeners. New makes one. Send is safe for concurrent use.
type Bus[E any] struct {
	listeners []func([]E)
	queue     *ring[E]
	dropped   atomic.Int64 // since Run last reported it

	idle atomic.Bool // Run waits for wake
	wake chan struct{}

	running chan struct{} // has a value while a Run carries events
}

// New returns a Bus without listeners.
func New[E any]() *Bus[E] {
	return &Bus[E]{queue: newRing[E](capacity), wake: make(chan struct{}, 1), running: make(chan struct{}, 1)}
}

// Listen has f called with the events in the order of Send, in batches of at
// most 256. Each f is called by one goroutine at a time, while Run runs. All
// listeners get the same slice, which they must not change. Listen must be
// called before Run and Send.
func (b *Bus[E]) Listen(f func(batch []E)) { b.listeners = append(b.listeners, f) }

// Send queues e for all listeners, or drops it if 8192 events wait already.
func (b *Bus[E]) Send(e E) {
	if !b.queue.put(&e) {
		b.dropped.Add(int64(len(b.listeners)))
		return
	}
	if b.idle.Load() && b.idle.CompareAndSwap(true, false) {
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
}

// Run carries events until ctx ends, then those that are queued still, and
// returns when all listeners have returned. It drops a batch for a listener
// that has 16 batches waiting, and logs the panic of a listener. It calls
// dropped with how many events were dropped since the last call, counting an
// event once for each listener that misses it. One Run at a time carries events: others wait
// until it has returned, or until their ctx ends.
func (b *Bus[E]) Run(ctx context.Context, log *slog.Logger, dropped func(n int64)) {
	select {
	case b.running <- struct{}{}: // also if ctx has ended
	default:
		select {
		case b.running <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
	defer func() { <-b.running }()
	var all sync.WaitGroup
	queues := make([]chan []E, len(b.listeners))
	for i, f := range b.listeners {
		queues[i] = make(chan []E, backlog)
		all.Go(func() { listen(queues[i], f, log) })
	}
	for ended, got := false, 0; !ended; {
		if got < capacity/4 { // else they come too fast to wait
			b.gather(ctx)
		}
		ended = ctx.Err() != nil
		got = b.carry(queues)
		if n := b.dropped.Swap(0); n > 0 {
			dropped(n)
		}
	}
	for _, q := range queues {
		close(q)
	}
	all.Wait()
}

// gather waits until there are events, and a little longer, or until ctx ends.
func (b *Bus[E]) gather(ctx context.Context) {
	b.idle.Store(true)
	if !b.queue.ready() { // a Send before that may not have seen idle
		select {
		case <-b.wake:
		case <-ctx.Done():
			return
		}
	}
	b.idle.Store(false)
	select {
	case <-time.After(gatherFor):
	case <-ctx.Done():
	}
}

// carry passes the queued events to the listeners, but at most about capacity,
// and returns how many.
func (b *Bus[E]) carry(queues []chan []E) (got int) {
	for got < capacity {
		batch := b.queue.take(make([]E, 0, batchSize))
		if len(batch) == 0 {
			break
		}
		got += len(batch)
		for _, q := range queues {
			select {
			case q <- batch:
			default:
				b.dropped.Add(int64(len(batch)))
			}
		}
	}
	return got
}

// listen calls f with the batches of queue until it is closed. It logs at most one panic
// per second.
func listen[E any](queue <-chan []E, f func([]E), log *slog.Logger) {
	var logged time.Time
	call := func(batch []E) {
		defer func() {
			if p := recover(); p != nil && time.Since(logged) >= time.Second {
				logged = time.Now()
				log.Error("a listener panicked", "panic", p)
			}
		}()
		f(batch)
	}
	for batch := range queue {
		call(batch)
	}
}
