// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// Rate is this host's part of a limit in events/s, under one algorithm.
//
// There are two levels: what the grant gives, and what the fallback gives.
// Decisions touch only the one in force, the bucket. The other rests, and is
// charged with the same usage at each report and at each switch, so that a
// switch gives nobody a second burst.
//
// Use NewRate. Allow, Take, Settle, Cap and Level are safe for concurrent use.
type Rate struct {
	bucket bucket.Bucket        // its first cache line is all that an allowed event touches
	ceil   atomic.Pointer[ceil] // of the resting level, until it is settled; nil: none
	Base
	observer Observer

	inForce Level
	resting resting
	settled atomic.Int64 // of what was allowed, what the resting level was charged with
}

var (
	_ stage.Stage = (*Rate)(nil)
	_ RatePart    = (*Rate)(nil)
)

// resting is a bucket level that nobody takes from.
type resting struct {
	Level
	tokens float64
	at     stage.Instant
}

// ceil is the most tokens that a level had at an instant.
type ceil struct {
	tokens float64
	at     stage.Instant
}

// NewRate returns a Rate in fallback, whose bucket has tokens tokens or is
// full, whichever is less.
func NewRate(now stage.Instant, key string, t *Terms, hosts int, tokens float64, salt uint64) *Rate {
	r := new(Rate)
	r.init(key, t)
	r.inForce = t.fallback(hosts)
	r.bucket.Init(bucket.NewPace(r.inForce.Limit, r.inForce.Burst))
	r.bucket.SetSalt(salt)
	r.bucket.Cap(now, tokens)
	r.resting = unknown(now)
	r.Steer(now, hosts)
	return r
}

// unknown is the resting level before the first grant.
func unknown(now stage.Instant) resting { return resting{Level{Burst: inf}, inf, now} }

// Observe implements Part.
func (r *Rate) Observe(o Observer) { r.observer = o }

// Allow takes one token if there is one. It is Take for one token now, without
// the reasons.
func (r *Rate) Allow(now stage.Instant) bool {
	ok, low := r.bucket.Allow(now)
	if low {
		r.observer.RanLow(now, false)
	}
	return ok
}

// RanLowIf tells the Observer if low, or if the Part is retired.
func (r *Rate) RanLowIf(now stage.Instant, low bool) {
	if low || r.bucket.LowAlways() {
		r.observer.RanLow(now, false)
	}
}

// Take implements stage.Stage.
func (r *Rate) Take(_ context.Context, q stage.Request) (v stage.Verdict, receipt stage.Receipt) {
	if q.N == 1 && q.Kind == stage.Final && q.Longest <= 0 && r.Terms().Debt <= 0 {
		if v.By = r.by(); !r.Allow(q.Now) {
			v.Reason = stage.Limited
			v.RetryAfter = r.bucket.RetryAfter(q.Now, 1)
		}
		return v, receipt
	}
	v, low := r.bucket.Take(q, r.Terms().Debt)
	if low {
		r.observer.RanLow(q.Now, false)
	}
	v.By = r.by()
	if v.Reason <= stage.Soft && q.Kind == stage.Take && q.N > 0 {
		receipt.N = q.N
		if math.IsInf(v.Left, 1) {
			receipt.Rest = countedOnly{}
		}
	}
	return v, receipt
}

// countedOnly marks a Receipt whose tokens no bucket gave.
type countedOnly struct{}

// Settle implements stage.Stage.
func (r *Rate) Settle(now stage.Instant, receipt stage.Receipt, actual int64) {
	_, counted := receipt.Rest.(countedOnly)
	switch actual = max(actual, 0); {
	case receipt.N == 0:
	case actual > receipt.N:
		r.Take(context.Background(), stage.Request{Now: now, N: actual - receipt.N, Kind: stage.Charge})
	case counted:
		r.Uncount(receipt.N - actual)
	case actual < receipt.N:
		r.bucket.Refund(now, receipt.N-actual)
	}
}

// Uncount takes back that n tokens were allowed that the bucket did not give.
// The resting level has been charged with them, and gets nothing back.
func (r *Rate) Uncount(n int64) {
	r.bucket.Uncount(n, true)
	r.settled.Add(-min(n, bucket.MaxCost))
}

// Cap implements stage.Stage: the level in force now, and the other when it is
// next settled.
func (r *Rate) Cap(now stage.Instant, tokens float64) {
	r.bucket.Cap(now, tokens)
	for {
		old, next := r.ceil.Load(), &ceil{tokens, now}
		if old != nil { // how fast the level fills is not known here
			next.tokens = min(tokens, old.tokens)
		}
		if r.ceil.CompareAndSwap(old, next) {
			return
		}
	}
}

// Level implements stage.Stage.
func (r *Rate) Level(now stage.Instant) stage.Level {
	return stage.Level{Limit: r.bucket.Limit(), Burst: r.bucket.Burst(), Tokens: r.bucket.Tokens(now)}
}

// Own implements RatePart.
func (r *Rate) Own() *Rate { return r }

// Bucket is what decides now. A remote stage counts in it without taking.
func (r *Rate) Bucket() *bucket.Bucket { return &r.bucket }

// InForce is the level that the bucket has.
func (r *Rate) InForce() Level { return r.inForce }

// filled is what the resting level would have if nothing had been used since
// it was settled.
func (r *Rate) filled(now stage.Instant) float64 {
	return r.resting.tokens + float64(r.resting.Limit)*float64(max(now.Sub(r.resting.at), 0))*1e-9
}

// settle charges the resting level with what was used since the last time.
func (r *Rate) settle(now stage.Instant) {
	filled, allowed := r.filled(now), r.bucket.Allowed()
	since := allowed - r.settled.Load()
	r.settled.Add(since)
	used := float64(max(since, 0))
	most := r.resting.Burst
	if r.ceil.Load() != nil { // a swap waits for everything before it
		if c := r.ceil.Swap(nil); c.tokens < most {
			most = min(most, c.tokens+float64(r.resting.Limit)*max(now.Sub(c.at), 0).Seconds())
		}
	}
	if r.resting.tokens != inf { // else it takes over from the bucket, which has been charged
		r.resting.tokens = max(min(filled, most)-used, 0)
	}
	r.resting.at = now
}

// Steer implements Part. Tokens stay with the level that they belong to; a
// first grant starts with what the fallback has left.
func (r *Rate) Steer(now stage.Instant, hosts int) {
	r.bucket.Drop(now)
	r.settle(now)
	decides, rests := r.Terms().fallback(hosts), r.granting(hosts)
	valid := r.Valid(now)
	if valid {
		decides, rests = rests, decides
	}
	switch {
	case valid != r.granted:
		kept := r.resting.tokens
		before := r.bucket.Replace(now, bucket.NewPace(decides.Limit, decides.Burst), func(old float64) float64 {
			if math.IsInf(kept, 1) || old < 0 {
				return min(old, kept) // debt goes along: somebody waits for it
			}
			return kept
		})
		r.granted = valid
		r.resting.tokens = max(before, 0)
	case decides != r.inForce:
		r.bucket.SetPace(now, bucket.NewPace(decides.Limit, decides.Burst))
	}
	r.inForce = decides
	r.SetFallen(r.Terms().Reports && !r.granted)
	if valid && r.floor == rpc.FloorDrop {
		r.bucket.SetPass(r.weight)
	} else {
		r.bucket.SetPass(1)
	}
	if r.given && (r.granted || r.resting.tokens != inf) { // else it was never in force, and takes over from the bucket
		r.resting = resting{rests, min(r.resting.tokens, rests.Burst), now}
	}
}

// Lend implements RatePart.
func (r *Rate) Lend(now stage.Instant, more float64, hosts int) {
	r.bucket.Drop(now)
	if r.granted {
		// With the pace in one step: the new depth may be less than what
		// there is now and not less than what there is to be.
		if level := r.granting(hosts); level != r.inForce {
			r.inForce = level
			r.bucket.Replace(now, bucket.NewPace(level.Limit, level.Burst), func(old float64) float64 { return old + more })
		} else {
			r.bucket.Add(now, more)
		}
		if r.floor != rpc.FloorDrop && !r.bucket.Drops() {
			r.settle(now) // which level is in force does not change
		} else {
			r.Steer(now, hosts)
		}
		return
	}
	before := r.bucket.Tokens(now)
	r.settle(now)
	r.resting = resting{r.granting(hosts), max(before+more, 0), now}
	r.Steer(now, hosts)
}

// Forget implements Part.
func (r *Rate) Forget(now stage.Instant, hosts int) {
	r.until = now
	r.Steer(now, hosts)
	r.SetGrant(Grant{})
	r.resting = unknown(now)
}

// Count implements Part.
func (r *Rate) Count(now stage.Instant) bucket.Usage { return r.bucket.Count(now) }

// DropCaches ends caching until processors compete again.
func (r *Rate) DropCaches(now stage.Instant) { r.bucket.Drop(now) }

// Inherit implements Part.
func (r *Rate) Inherit(u bucket.Usage) { r.bucket.Inherit(u) }

// Tokens implements Part.
func (r *Rate) Tokens(now stage.Instant) float64 { return r.bucket.Tokens(now) }

// Has implements Part.
func (r *Rate) Has() float64 { return r.has() }

// Idle implements Part.
func (r *Rate) Idle(now stage.Instant) bool {
	if _, stated := r.Stated(); stated {
		return false
	}
	if !r.bucket.Full(now) {
		return false
	}
	r.settle(now)
	return r.resting.tokens >= r.resting.Burst || r.resting.Limit == 0
}

// Retire implements Part.
func (r *Rate) Retire() { r.bucket.SetLowAlways() }
