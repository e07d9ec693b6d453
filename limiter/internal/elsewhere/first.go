// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"context"
	"sync/atomic"

	"github.com/headgate/headgate/limiter/stage"
)

// first is tokens that a bucket elsewhere is charged with before the host asks it for more.
type first struct {
	until stage.Instant
	next  atomic.Pointer[attempt] // the one under way, or the next one
}

// attempt is one to send what is owed.
type attempt struct {
	ended chan struct{}
	err   error // set before ended is closed
}

// PutFirst has asks come after the charge with what was added until now. If an attempt to send it
// fails at until or later, they do not any more.
func (o *Owed) PutFirst(until stage.Instant) {
	f := &first{until: until}
	f.next.Store(&attempt{ended: make(chan struct{})})
	if before := o.first.Swap(f); before != nil {
		before.end(nil)
	}
}

// HasFirst reports whether asks come after a charge.
func (o *Owed) HasFirst() bool { return o.first.Load() != nil }

// AwaitFirst waits until the bucket has answered the charges that asks come after, or until ctx
// ends. If no caller is sending what is owed, it calls send, which sends that and then calls End.
// The error is ctx's, or that of an attempt without an answer.
func (o *Owed) AwaitFirst(ctx context.Context, send func()) error {
	for f := o.first.Load(); f != nil; f = o.first.Load() {
		a := f.next.Load() // before Begin: if another caller has begun, its End ends this one, or has ended it
		if o.first.Load() != f {
			continue // f has ended meanwhile: no sender would end the attempt that was loaded
		}
		if ctx.Err() == nil && o.Begin() {
			send()
		}
		if err := a.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// charged says that f, which may be nil, has been charged.
func (o *Owed) charged(f *first) {
	if f != nil && o.first.CompareAndSwap(f, nil) {
		f.end(nil)
	}
}

// end has asks hear how the attempt has ended.
func (f *first) end(err error) {
	a := f.next.Swap(&attempt{ended: make(chan struct{})})
	a.err = err
	close(a.ended)
}

func (a *attempt) wait(ctx context.Context) error {
	select {
	case <-a.ended:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
