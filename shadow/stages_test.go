// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter/stage"
)

const (
	second = stage.Instant(time.Second)

	disabled     = dynamicconfig.ModeDisabled
	old          = dynamicconfig.ModeOld
	oldShadowNew = dynamicconfig.ModeOldShadowNew
	newShadowOld = dynamicconfig.ModeNewShadowOld
	onlyNew      = dynamicconfig.ModeNew
)

var modes = []dynamicconfig.Mode{disabled, old, oldShadowNew, newShadowOld, onlyNew}

func TestMain(m *testing.M) { waittest.Main(m) }

// bucket is a token bucket that remembers what it was asked, and complains if
// the contract of stage.Stage is broken.
type bucket struct {
	t      testing.TB
	limit  rate.Limit
	burst  float64
	capped func() // if not nil, called by Cap

	mu                       sync.Mutex // protects following fields
	tokens                   float64
	last                     stage.Instant
	issued                   uint64
	open                     map[uint64]int64 // what was taken and not settled, by ID
	asked, charged, rejected int64
	settled                  int64
	answer                   stage.Verdict // the last one
}

var _ stage.Stage = (*bucket)(nil)

// newBucket returns a full bucket, which never refills if limit is 0.
func newBucket(t testing.TB, limit rate.Limit, burst int) *bucket {
	return &bucket{t: t, limit: limit, burst: float64(burst), tokens: float64(burst), last: math.MinInt64, open: make(map[uint64]int64)}
}

func (b *bucket) fillLocked(now stage.Instant) {
	if now > b.last {
		b.tokens = min(b.tokens+now.Sub(b.last).Seconds()*float64(b.limit), b.burst)
		b.last = now
	}
}

// after is how long it takes until tokens have come in.
func (b *bucket) after(tokens float64) time.Duration {
	switch {
	case tokens <= 1e-9:
		return 0
	case b.limit == 0:
		return stage.Forever
	}
	return time.Duration(math.Ceil(tokens / float64(b.limit) * 1e9))
}

func (b *bucket) Take(_ context.Context, r stage.Request) (stage.Verdict, stage.Receipt) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.fillLocked(r.Now)
	n := float64(r.N)
	var wait time.Duration
	if r.Kind >= stage.Charge {
		b.charged += r.N
	} else {
		b.asked += r.N
		wait = b.after(n - b.tokens)
	}
	b.answer = stage.Verdict{Wait: wait, Left: b.tokens - n}
	if wait > r.Longest || wait == stage.Forever {
		b.rejected += r.N
		b.answer = stage.Verdict{RetryAfter: wait, Left: b.tokens}
		b.answer.Reason = stage.Limited
		return b.answer, stage.Receipt{}
	}
	b.tokens -= n
	if r.Kind != stage.Take || r.N == 0 {
		return b.answer, stage.Receipt{}
	}
	b.issued++
	b.open[b.issued] = r.N
	return b.answer, stage.Receipt{N: r.N, Rest: b.issued}
}

func (b *bucket) Allow(ctx context.Context, now stage.Instant) stage.Reason {
	return stage.AllowByTake(ctx, now, b.Take)
}

func (b *bucket) Settle(now stage.Instant, r stage.Receipt, actual int64) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if r == (stage.Receipt{}) {
		return
	}
	if n, ok := b.open[issued(r)]; !ok || n != r.N {
		b.t.Errorf("settled a receipt for %d that is not open", r.N)
	}
	delete(b.open, issued(r))
	b.fillLocked(now)
	b.settled++
	b.tokens = min(b.tokens+float64(r.N-actual), b.burst)
}

func (b *bucket) Cap(now stage.Instant, tokens float64) {
	if b.capped != nil {
		b.capped()
	}
	b.mu.Lock()
	defer b.mu.Unlock()

	b.fillLocked(now)
	b.tokens = min(b.tokens, tokens)
}

func (b *bucket) Level(now stage.Instant) stage.Level {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.fillLocked(now)
	return stage.Level{Limit: b.limit, Burst: b.burst, Tokens: b.tokens}
}

func (*bucket) Open() (open bool, changed []<-chan struct{}) { return false, nil }

func (b *bucket) has(now stage.Instant) float64 { return b.Level(now).Tokens }

// calls is how much was asked for or charged.
func (b *bucket) calls() int64 { return b.asked + b.charged }

// elsewhere is a bucket that takes a second to answer.
type elsewhere struct{ *bucket }

func (e elsewhere) Allow(ctx context.Context, now stage.Instant) stage.Reason {
	return stage.AllowByTake(ctx, now, e.Take)
}

func (e elsewhere) Take(ctx context.Context, r stage.Request) (stage.Verdict, stage.Receipt) {
	if r.Kind >= stage.Charge {
		return e.bucket.Take(ctx, r)
	}
	select {
	case <-ctx.Done():
		return canceled(), stage.Receipt{}
	case <-time.After(time.Second):
		return e.bucket.Take(ctx, r)
	}
}

func (e elsewhere) Cap(stage.Instant, float64) {}

func (e elsewhere) Level(now stage.Instant) stage.Level {
	level := e.bucket.Level(now)
	level.Remote = true
	return level
}

// spawn is a background that is never full.
func spawn(f func()) bool {
	go f()
	return true
}

// noBackground is for stages that are local.
func noBackground(func()) bool { panic("a local stage was asked in the background") }

// allow takes n at once, for good.
func allow(s stage.Stage, now stage.Instant, n int64) bool {
	if n == 1 {
		return s.Allow(context.Background(), now).OK()
	}
	v, _ := s.Take(context.Background(), stage.Request{Now: now, N: n, Kind: stage.Final})
	return v.OK()
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// count counts a pair of answers in c.
func count(c *stage.Divergence, old, new bool, n int64) {
	switch {
	case old && new:
		c.Both += n
	case old:
		c.OnlyOld += n
	case new:
		c.OnlyNew += n
	default:
		c.Neither += n
	}
}

// canceled is the verdict for a caller that has gone.
func canceled() (v stage.Verdict) {
	v.Reason = stage.Canceled
	return v
}

// issued is the number of a Receipt of a stage of the tests.
func issued(r stage.Receipt) uint64 {
	id, _ := r.Rest.(uint64)
	return id
}
