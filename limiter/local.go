// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Bucket is one token bucket on one host, with the methods and the behaviour
// of *rate.Limiter, but without a lock: taking a token is one atomic step.
//
// It differs where x/time/rate's behaviour is a trap: a negative cost is
// refused, a reservation that could never act (the limit is zero) is not OK,
// and time that goes backwards never adds tokens. Rates are kept to 1/8 ns per
// token and are never exceeded.
type Bucket struct {
	clocked
	bucket bucket

	mu    sync.Mutex // protects following fields, and setPace
	limit rate.Limit
	burst int
}

// NewBucket returns a full Bucket of limit events/s (rate.Inf for no limit)
// and burst tokens. A negative or NaN limit is zero, a negative burst too.
func NewBucket(limit rate.Limit, burst int) *Bucket {
	b := &Bucket{limit: limit, burst: burst}
	b.Stepper = bucketSteps{b}
	b.bucket.init(newPace(limit, float64(burst)))
	return b
}

// SetLimit is SetLimitAt(now, limit).
func (b *Bucket) SetLimit(limit rate.Limit) { b.SetLimitAt(Now().Time(), limit) }

// SetLimitAt changes the limit and keeps the tokens there are at t.
func (b *Bucket) SetLimitAt(t time.Time, limit rate.Limit) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.limit = limit
	b.bucket.setPace(At(t), newPace(limit, float64(b.burst)))
}

// SetBurst is SetBurstAt(now, burst).
func (b *Bucket) SetBurst(burst int) { b.SetBurstAt(Now().Time(), burst) }

// SetBurstAt changes the burst and keeps the tokens there are at t, up to burst.
func (b *Bucket) SetBurstAt(t time.Time, burst int) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.burst = burst
	b.bucket.setPace(At(t), newPace(b.limit, float64(burst)))
}

// bucketSteps are Bucket's steps, kept apart so that its method set is
// *rate.Limiter's.
type bucketSteps struct{ of *Bucket }

func (b bucketSteps) AllowAt(now Instant, n int) bool {
	if n == 1 {
		return b.of.bucket.allow(now)
	}
	_, ok := b.of.bucket.reserve(now, int64(n), 0)
	return ok
}

func (b bucketSteps) ReserveAt(now Instant, n int, longest time.Duration) Reservation {
	wait, ok := b.of.bucket.reserve(now, int64(n), longest)
	if !ok {
		return &ticket{}
	}
	return &ticket{from: b, n: n, limit: b.Level(now).Limit, taken: now, act: now.Add(wait)}
}

func (b bucketSteps) ChargeAt(now Instant, n int) { b.of.bucket.add(now, -float64(max(n, 0))) }

func (b bucketSteps) CapAt(now Instant, tokens float64) { b.of.bucket.cap(now, tokens) }

func (b bucketSteps) Level(now Instant) Level {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()

	return Level{Limit: b.of.limit, Burst: float64(b.of.burst), Tokens: b.of.bucket.tokens(now)}
}

func (b bucketSteps) debt(now Instant) time.Duration { return b.of.bucket.delay(now) }

func (b bucketSteps) refund(now Instant, tokens float64, _ int) { b.of.bucket.add(now, tokens) }
