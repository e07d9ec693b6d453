// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// AcquireOption changes how one call of Acquire waits.
type AcquireOption func(*acquire)

// acquire is what the options of a call make.
type acquire struct{ priority int64 }

// Priority has a call that waits for slots served before those of lower
// priority; the default is 0. It has no meaning where a rule limits a rate.
func Priority(priority int64) AcquireOption {
	return func(a *acquire) { a.priority = priority }
}

func releaseNothing() {}

// TryAcquire takes n slots until the caller calls release, if the slots are free
// and no other caller waits for them. Only the first call of release does anything.
// release is never nil. For a rule that limits a rate, TryAcquire is AllowN, and
// release does nothing.
func (l *Limiter) TryAcquire(n int) (release func(), ok bool) {
	if slots := l.of().PlainSlots(); slots != nil && n > 0 {
		if h, ok := slots.AcquireFast(int64(n)); ok { // without a look at the clock
			return h.Release, true
		}
	}
	now := stage.Now()
	for {
		st := l.of().Current(now)
		switch {
		case st.Slots == nil:
			return releaseNothing, allow(l.of(), now, int64(n))
		case n <= 0 || int64(n) > bucket.MaxCost:
			return releaseNothing, n == 0
		}
		switch h, err := st.Slots.TryAcquire(now, int64(n)); {
		case err == nil:
			return h.Release, true
		case !errors.Is(err, stage.ErrMoved):
			return releaseNothing, false
		}
	}
}

// Acquire waits until n slots are free and all waiters before it are served.
// Waiters of higher Priority come first, then those that came first. A call that needs
// more slots than this host has now lets others pass. It returns ErrNever at
// once if n exceeds the whole limit, ErrTooManyWaiters, and ctx's error when ctx
// ends; then it holds nothing. For a rule that limits a rate it is WaitN.
func (l *Limiter) Acquire(ctx context.Context, n int, options ...AcquireOption) (release func(), err error) {
	var a acquire
	for _, o := range options {
		o(&a)
	}
	for {
		st := l.of().Current(stage.Now())
		if st.Slots == nil {
			return releaseNothing, l.WaitN(ctx, n)
		}
		if err := ctx.Err(); err != nil {
			return releaseNothing, err
		}
		switch {
		case n < 0:
			return releaseNothing, fmt.Errorf("limiter: acquire %s: slots cannot be negative", asked(l.of(), int64(n)))
		case n == 0:
			return releaseNothing, nil
		case int64(n) > bucket.MaxCost:
			return releaseNothing, fmt.Errorf("limiter: acquire %s: %w", asked(l.of(), int64(n)), ErrNever)
		}
		h, err := st.Slots.Acquire(ctx, int64(n), a.priority)
		switch {
		case err == nil:
			return h.Release, nil
		case !errors.Is(err, stage.ErrMoved):
			return releaseNothing, fmt.Errorf("limiter: acquire %s: %w", asked(l.of(), int64(n)), err)
		}
	}
}
