// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
)

// Event is something that happened to a key of a Group.
type Event struct {
	Kind EventKind

	// Reason is the Decision's, where there was one.
	Reason Reason

	// Key and the key of its Rule, which is empty when none matched.
	Key, Rule string

	// Cost is in tokens; 0 where nothing was asked for.
	Cost int

	// Wait is how long the caller was told to wait.
	Wait time.Duration

	At Instant
}

// EventKind is what kind of Event it is.
type EventKind uint8

const (
	// EventServed is an event that was allowed at once. Its Reason is Soft
	// if it was over a limit that is not enforced.
	EventServed EventKind = iota
	// EventWaited is an event that was allowed after a wait.
	EventWaited
	// EventTimedOut is an event that was refused, because there were too few
	// tokens now, or within the wait that was possible.
	EventTimedOut
	// EventTooLarge is an event that was refused because of its cost.
	EventTooLarge
	// EventNoBucket is an event that was refused because its key has no
	// limiter: the Reason says why.
	EventNoBucket
	// EventCreated is a key that came to life.
	EventCreated
	// EventRemoved is a key that was forgotten.
	EventRemoved
	// EventFallbackEntered is a key whose grant has run out, or whose bucket
	// elsewhere does not answer. A new key begins in its fallback without it.
	EventFallbackEntered
	// EventFallbackLeft is a key for which that is over.
	EventFallbackLeft
)

var eventNames = []string{"served", "waited", "timed-out", "too-large", "no-bucket", "created", "removed", "fallback-entered", "fallback-left"}

// String is the kind in words.
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return fmt.Sprintf("event(%d)", k)
}

// WithListener has f called with what happens to the keys of a Group, in
// batches of up to 256. It may be used several times. Each f is called by one
// goroutine at a time, while Run runs; all get the same slice, which nobody may
// change.
//
// Decisions never wait for a listener. What one cannot take in as fast as it
// happens is dropped, and counted: 8192 events wait for all listeners, and 16
// batches for each. Slots in flight are not told of.
//
// With a listener every key costs some 220 bytes more, and a decision about
// as much again as it does without; without one, neither costs anything.
func WithListener(f func(events []Event)) Option {
	return func(g *Group) {
		if g.events == nil {
			g.events = newEvents()
		}
		g.events.listeners = append(g.events.listeners, f)
	}
}

const (
	ringSize  = 8192
	batchSize = 256
	backlog   = 16 // batches, for each listener

	// gather is for how long events are collected before they are told.
	gather = time.Millisecond
)

// events carries events from decisions to listeners.
type events struct {
	ring      *ring
	listeners []func([]Event)
	dropped   atomic.Int64

	idle atomic.Bool // the carrier waits for wake
	wake chan struct{}
}

func newEvents() *events { return &events{ring: newRing(ringSize), wake: make(chan struct{}, 1)} }

// tell is cheap, and may be called with any lock held; e may be nil.
func (e *events) tell(event Event) {
	if e == nil {
		return
	}
	if !e.ring.put(&event) {
		e.dropped.Add(1)
		return
	}
	if e.idle.Load() && e.idle.CompareAndSwap(true, false) {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// run carries events until ctx ends, and then what there is still.
func (e *events) run(ctx context.Context, log *slog.Logger, dropped tally.Counter) {
	var all sync.WaitGroup
	queues := make([]chan []Event, len(e.listeners))
	for i, f := range e.listeners {
		queues[i] = make(chan []Event, backlog)
		all.Go(func() { listen(queues[i], f, log) })
	}
	for ended, got := false, 0; !ended; {
		if ended = ctx.Err() != nil; got < ringSize/4 { // else they come fast
			ended = e.collect(ctx)
		}
		for got = 0; got < ringSize; {
			batch := e.ring.take(make([]Event, 0, batchSize))
			if len(batch) == 0 {
				break
			}
			got += len(batch)
			e.dropped.Add(pass(queues, batch))
		}
		dropped.Inc(e.dropped.Swap(0))
	}
	for _, q := range queues {
		close(q)
	}
	all.Wait()
}

// collect waits until there are events, and tells whether ctx has ended.
func (e *events) collect(ctx context.Context) (ended bool) {
	e.idle.Store(true)
	if !e.ring.ready() { // else nobody may have seen that it is idle
		select {
		case <-e.wake:
		case <-ctx.Done():
			return true
		}
	}
	e.idle.Store(false)
	return sleep(ctx, gather) != nil
}

// pass hands batch to who has room, and returns how many events were dropped.
func pass(queues []chan []Event, batch []Event) (dropped int64) {
	for _, q := range queues {
		select {
		case q <- batch:
		default:
			dropped += int64(len(batch))
		}
	}
	return dropped
}

// listen calls f. One that panics does not end the process.
func listen(queue <-chan []Event, f func([]Event), log *slog.Logger) {
	call := func(batch []Event) {
		defer func() {
			if p := recover(); p != nil {
				log.Error("a listener panicked", "panic", p)
			}
		}()
		f(batch)
	}
	for batch := range queue {
		call(batch)
	}
}

// tellOf tells of a key of rule, which is nil when none matched.
func (g *Group) tellOf(now Instant, kind EventKind, key string, rule *dynamicconfig.Rule) {
	if g.events == nil {
		return
	}
	e := Event{Kind: kind, Key: key, At: now}
	if rule != nil {
		e.Rule = rule.Key
	}
	g.events.tell(e)
}

// tellFallback tells that s has entered or left its fallback.
func (g *Group) tellFallback(now Instant, s *share) {
	kind := EventFallbackLeft
	if s.fallen.Load() {
		kind = EventFallbackEntered
	}
	g.tellOf(now, kind, s.key, s.rule)
}

// eventOf is the event that a decision is.
func eventOf(now Instant, key, rule string, n int, reason Reason, wait time.Duration) Event {
	e := Event{Kind: EventTimedOut, Reason: reason, Key: key, Rule: rule, Cost: n, At: now}
	switch reason {
	case Granted, Soft:
		e.Kind, e.Wait = EventServed, wait
		if wait > 0 {
			e.Kind = EventWaited
		}
	case TooCostly, InvalidCost:
		e.Kind = EventTooLarge
	case Unmatched, TooManyKeys, InvalidKey:
		e.Kind = EventNoBucket
	}
	return e
}
