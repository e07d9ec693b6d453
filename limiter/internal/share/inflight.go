// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"errors"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/semaphore"
	"github.com/headgate/headgate/limiter/stage"
)

// inFlight is a semaphore as stage.Slots. The semaphore counts what it gives, and inFlight what it refuses.
type inFlight struct {
	free  *semaphore.Semaphore
	other bucket.Tally // what the semaphore refused, and what other Parts counted
}

// AcquireFast is TryAcquire without a look at the clock: false says nothing.
func (s *inFlight) AcquireFast(n int64) (stage.Hold, bool) { return s.free.TryAcquireFast(n) }

// TryAcquire implements stage.Slots.
func (s *inFlight) TryAcquire(now stage.Instant, n int64) (stage.Hold, error) {
	h, err := s.free.TryAcquire(now, n)
	s.count(n, err)
	return h, err
}

// Acquire implements stage.Slots.
func (s *inFlight) Acquire(ctx context.Context, n, priority int64) (stage.Hold, error) {
	h, err := s.free.Acquire(ctx, n, priority)
	s.count(n, err)
	return h, err
}

func (s *inFlight) count(n int64, err error) {
	if err != nil && !errors.Is(err, stage.ErrMoved) {
		s.other.Record(n, false)
	}
}

// Level implements stage.Slots.
func (s *inFlight) Level(stage.Instant) stage.Level {
	c := s.free.Census()
	if c.Size == semaphore.Unlimited {
		return stage.Level{Limit: rate.Inf, Burst: inf, Tokens: inf}
	}
	return stage.Level{Limit: rate.Limit(c.Size), Burst: float64(c.Size), Tokens: float64(c.Free())}
}

// Census counts the slots and those who wait for them.
func (s *inFlight) Census() semaphore.Census { return s.free.Census() }

// Wants is the demand in slots, as observed since the last call.
func (s *inFlight) Wants(now stage.Instant) float64 { return s.free.Wants(now) }

// Count implements Part.
func (s *inFlight) Count(stage.Instant) bucket.Usage {
	u := s.other.Usage()
	u.Allowed += s.free.Given()
	return u
}

// Inherit implements Part.
func (s *inFlight) Inherit(u bucket.Usage) { s.other.Inherit(u) }
