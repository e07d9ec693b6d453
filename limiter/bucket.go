// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// Bucket is a Limiter of one host, with the methods and the behaviour of
// *rate.Limiter, but without a lock: taking a token is one atomic step. Beside
// the methods below, it has all methods of a Limiter: AllowN, Reserve, Wait,
// Tokens and so on.
//
// A Bucket differs where x/time/rate's behaviour is a trap: a negative cost is
// refused, a reservation that could never act (the limit is zero) is not OK,
// and time that goes backwards never adds tokens, so that nothing fills in
// between a call with a time in the future and that time. Rates are never
// exceeded. They are less by up to 0.1%, and by more above 8e9/s. Times that are
// more than a century off the process's start, such as the zero time.Time, count
// as a century off. The zero Bucket refuses everything, whatever is set. Above
// 7.8e6/s, Allow may find less than the burst after just 13 days without use, or
// a multiple of that, until the Bucket has filled again.
type Bucket struct {
	limiter
	bucket local
}

// limiter is a Limiter that no other package can replace in a Bucket.
type limiter = Limiter

// NewBucket returns a full Bucket of limit events/s (rate.Inf for no limit)
// and burst tokens. A negative or NaN limit is zero, a negative burst too.
func NewBucket(limit rate.Limit, burst int) *Bucket {
	b := &Bucket{bucket: local{limit: atLeastZero(limit), burst: max(burst, 0)}}
	b.bucket.Init(b.bucket.pace())
	keyOf(&b.limiter).Serve(&b.bucket)
	return b
}

// Limiter returns b as a *Limiter, for code that takes one.
func (b *Bucket) Limiter() *Limiter { return &b.limiter }

// Allow is AllowN(now, 1).
func (b *Bucket) Allow() bool {
	ok, _ := b.bucket.Bucket.Allow(stage.Now())
	return ok
}

// SetLimit is SetLimitAt(now, limit).
func (b *Bucket) SetLimit(limit rate.Limit) { b.bucket.set(stage.Now(), &limit, nil) }

// SetLimitAt changes the limit and keeps the tokens there are at t.
func (b *Bucket) SetLimitAt(t time.Time, limit rate.Limit) { b.bucket.set(stage.At(t), &limit, nil) }

// SetBurst is SetBurstAt(now, burst).
func (b *Bucket) SetBurst(burst int) { b.bucket.set(stage.Now(), nil, &burst) }

// SetBurstAt changes the burst and keeps the tokens there are at t, up to burst.
func (b *Bucket) SetBurstAt(t time.Time, burst int) { b.bucket.set(stage.At(t), nil, &burst) }

// local is a bucket as a stage.Stage.
type local struct {
	bucket.Bucket

	mu    sync.Mutex // protects following fields, and the pace
	limit rate.Limit
	burst int
}

func (b *local) set(now stage.Instant, limit *rate.Limit, burst *int) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.Drops() { // the zero Bucket, which NewBucket has not made
		return
	}
	if limit != nil {
		b.limit = atLeastZero(*limit)
	}
	if burst != nil {
		b.burst = max(*burst, 0)
	}
	b.Drop(now)
	b.SetPace(now, b.pace())
}

// pace is that of limit and burst.
func (b *local) pace() bucket.Pace { return bucket.NewPace(b.limit, float64(b.burst)) }

// atLeastZero is limit, or zero if it is negative or NaN.
func atLeastZero(limit rate.Limit) rate.Limit {
	if limit > 0 {
		return limit
	}
	return 0
}

// Take implements stage.Stage.
func (b *local) Take(_ context.Context, r stage.Request) (stage.Verdict, stage.Receipt) {
	if r.Kind >= stage.Charge {
		return b.charge(r.Now, r.N), stage.Receipt{}
	}
	v, _ := b.Bucket.Take(r, 0)
	if !v.OK() || r.Kind != stage.Take || math.IsInf(v.Left, 1) {
		return v, stage.Receipt{}
	}
	return v, stage.Receipt{N: r.N}
}

// Allow implements stage.Stage.
func (b *local) Allow(ctx context.Context, now stage.Instant) stage.Reason {
	return stage.AllowByTake(ctx, now, b.Take)
}

// Settle implements stage.Stage.
func (b *local) Settle(now stage.Instant, r stage.Receipt, actual int64) {
	if back := r.N - max(actual, 0); back > 0 {
		b.Refund(now, back)
	} else if back < 0 && r.N > 0 {
		b.charge(now, -back)
	}
}

// charge takes n tokens that are spent already, into a debt of at most two bursts.
func (b *local) charge(now stage.Instant, n int64) stage.Verdict {
	v, _ := b.Charge(now, n, 0, b.Pace().Burst())
	return v
}

// Level implements stage.Stage.
func (b *local) Level(now stage.Instant) stage.Level {
	b.mu.Lock()
	defer b.mu.Unlock()

	return stage.Level{Limit: b.limit, Burst: float64(b.burst), Tokens: b.Tokens(now)}
}

// Open implements stage.Stage: a wait is as long as with a *rate.Limiter, whatever changes.
func (*local) Open() (open bool, changed []<-chan struct{}) { return false, nil }
