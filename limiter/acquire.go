// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// Priority has a call that waits for slots served before those of lower Priority; the
// default is 0. It has no meaning where a rule limits a rate.
type Priority int64

func releaseNothing() {}

// hasSlots reports whether the rule limits what is in flight.
func hasSlots(l *Limiter) bool { return keyOf(l).Current(stage.Now()).Slots != nil }

// TryAcquire takes n slots until the caller calls release, if the slots are free
// and no other caller waits for them. release is never nil, and only its first call does
// anything; it is safe for concurrent use. For a rule that limits a rate, TryAcquire is
// AllowN, and release does nothing.
func (l *Limiter) TryAcquire(n int) (release func(), ok bool) {
	if slots := keyOf(l).PlainSlots(); slots != nil && n > 0 && int64(n) <= bucket.MaxCost {
		// Without a look at the clock. Slots of a side that a migration leaves at this moment are as those
		// that were held before: see shadow.SlotsPair.
		if h, ok := slots.AcquireFast(int64(n)); ok {
			return h.Release, true
		}
	}
	now := stage.Now()
	for {
		st := keyOf(l).Current(now)
		switch {
		case st.Slots == nil:
			v, _, _ := decide(context.Background(), keyOf(l), now, int64(n), 0, stage.Final)
			if v.Reason == InFlight && hasSlots(l) {
				continue // the rule has changed
			}
			return releaseNothing, v.OK()
		case n <= 0 || int64(n) > bucket.MaxCost:
			return releaseNothing, n == 0
		}
		switch h, err := st.Slots.TryAcquire(now, int64(n)); {
		case err == nil && keyOf(l).Counts(now, st):
			return h.Release, true
		case err == nil:
			h.Void()
		case !errors.Is(err, stage.ErrMoved):
			return releaseNothing, false
		}
	}
}

// Acquire waits until n slots are free and all callers before it are served, and holds
// the slots until the caller calls release, as with TryAcquire. Callers of higher Priority
// are served first, and callers of equal Priority in the order in which they came. If a call
// states several, the last one counts. A caller that needs more slots than this host has
// now lets others pass.
//
// Acquire returns an error at once if n exceeds the whole limit (ErrNever) or if too many
// callers wait (ErrTooManyWaiters), and ctx's error when ctx ends. After an error the caller
// holds nothing. For a rule that limits a rate, Acquire is WaitN, and release does nothing.
func (l *Limiter) Acquire(ctx context.Context, n int, priority ...Priority) (release func(), err error) {
	var first Priority
	for _, first = range priority {
	}
	for {
		st := keyOf(l).Current(stage.Now())
		if st.Slots == nil {
			err := l.WaitN(ctx, n)
			if errors.Is(err, ErrInFlight) && hasSlots(l) {
				continue // the rule has changed
			}
			return releaseNothing, err
		}
		if err := ctx.Err(); err != nil {
			return releaseNothing, err
		}
		switch {
		case n < 0:
			return releaseNothing, fmt.Errorf("limiter: acquire %s: slots cannot be negative", asked(keyOf(l), int64(n)))
		case n == 0:
			return releaseNothing, nil
		case int64(n) > bucket.MaxCost:
			return releaseNothing, fmt.Errorf("limiter: acquire %s: %w", asked(keyOf(l), int64(n)), ErrNever)
		}
		h, err := keyOf(l).Acquire(ctx, st, int64(n), int64(first))
		switch {
		case err == nil && keyOf(l).Counts(stage.Now(), st):
			return h.Release, nil
		case err == nil:
			h.Void()
		case !errors.Is(err, stage.ErrMoved):
			return releaseNothing, fmt.Errorf("limiter: acquire %s: %w", asked(keyOf(l), int64(n)), err)
		}
	}
}
