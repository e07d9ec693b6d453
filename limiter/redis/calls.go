// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// calls bounds the calls under way. The bound begins at firstCalls. It rises by
// one with each call that Redis answers, up to the most, and falls by one with
// each that it does not: a burst must not open more connections at once than
// this host and Redis can set up within a call's timeout.
type calls struct {
	free  chan struct{} // a value for each call that may begin
	bound *atomic.Int64
}

const firstCalls = 4

func newCalls(most int) calls {
	c := calls{make(chan struct{}, most), new(atomic.Int64)}
	for c.bound.Load() < int64(min(most, firstCalls)) {
		c.bound.Add(1)
		c.free <- struct{}{}
	}
	return c
}

// acquire waits until a call may begin, but not for longer than longest.
func (c calls) acquire(ctx context.Context, longest time.Duration) error {
	select {
	case <-c.free:
		return nil
	default:
	}
	select {
	case <-c.free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(longest):
		return fmt.Errorf("redis: %w: none ended within %v", stage.ErrBusy, longest)
	}
}

// release ends a call that returned err.
func (c calls) release(err error) {
	change := int64(0)
	switch {
	case answered(err):
		change = 1
	case errors.As(err, new(failure)):
		change = -1
	}
	for {
		bound := c.bound.Load()
		next := max(min(bound+change, int64(cap(c.free))), int64(min(cap(c.free), firstCalls)))
		if c.bound.CompareAndSwap(bound, next) {
			change = next - bound
			break
		}
	}
	for range 1 + change {
		c.free <- struct{}{}
	}
}
