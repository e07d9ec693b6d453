// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"math"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Rate is this host's part of a limit in events/s, under one algorithm.
//
// There are two levels: what the grant gives, and what the fallback gives.
// Decisions touch only the one in force, the bucket. The other rests, and is
// charged with the same usage at each report and at each switch, so that a
// switch gives no second burst.
//
// Use NewRate. Allow, Take, Settle, Cap and Level are safe for concurrent use.
type Rate struct {
	bucket bucket.Bucket // its first cache line is all that an allowed event touches
	Base
	inForce Level
	resting resting
}

var (
	_ stage.Stage = (*Rate)(nil)
	_ RatePart    = (*Rate)(nil)
)

// NewRate returns a Rate in fallback, whose bucket has tokens tokens or is
// full, whichever is less.
func NewRate(now stage.Instant, key string, t *Terms, hosts int, tokens float64, salt uint64) *Rate {
	r := new(Rate)
	r.init(key, t)
	r.inForce = t.fallback(hosts)
	r.bucket.Init(bucket.NewPace(r.inForce.Limit, r.inForce.Burst))
	r.bucket.SetSalt(salt)
	r.bucket.Cap(now, tokens)
	r.resting.init(now)
	r.Steer(now, hosts)
	return r
}

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
	t, low := r.Terms(), false
	if q.N == 1 && q.Kind == stage.Final && q.Longest <= 0 && t.Debt <= 0 { // caches may decide
		ok := false
		if ok, low = r.bucket.Allow(q.Now); !ok {
			v.Reason, v.RetryAfter = stage.Limited, r.bucket.RetryAfter(q.Now, 1)
		}
	} else if q.Kind == stage.Charge {
		v, low = r.bucket.Charge(q.Now, t.Owed(q.N), t.borrows(), t.Rule.Costliest())
	} else {
		v, low = r.bucket.Take(q, t.Debt)
	}
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

// Spend takes n tokens that are spent already, without counting them.
func (r *Rate) Spend(now stage.Instant, n int64) {
	t := r.Terms()
	r.bucket.Spend(now, n, t.borrows(), t.Rule.Costliest())
}

// Uncount takes back that n tokens were allowed that the bucket did not give.
// The resting level has been charged with them, and gets nothing back.
func (r *Rate) Uncount(n int64) {
	r.bucket.Record(-n, true)
	r.resting.charged.Add(-min(n, bucket.MaxCost))
}

// Cap implements stage.Stage: the level in force now, and the other when it is
// next settled.
func (r *Rate) Cap(now stage.Instant, tokens float64) {
	r.bucket.Cap(now, tokens)
	r.resting.cap(now, tokens)
}

// Level implements stage.Stage.
func (r *Rate) Level(now stage.Instant) stage.Level {
	p := r.bucket.Pace()
	return stage.Level{Limit: p.Limit(), Burst: p.Burst(), Tokens: r.bucket.Tokens(now)}
}

// Passes is the part of all events that pass, in [0, 1]: less than 1 while a weight says how
// many of them to refuse by chance.
func (r *Rate) Passes() float64 { return r.bucket.Passes() }

// Own implements RatePart.
func (r *Rate) Own() *Rate { return r }

// Bucket is what decides now. A remote stage counts in it without taking.
func (r *Rate) Bucket() *bucket.Bucket { return &r.bucket }

// InForce is the level that the bucket has.
func (r *Rate) InForce() Level { return r.inForce }

// ChargeResting charges the level that is not in force with what the bucket has
// allowed. Each grant does, and so does each report while there is none or an answer is
// missing: the level overflows before a charge that comes late.
func (r *Rate) ChargeResting(now stage.Instant) { r.resting.charge(now, r.bucket.Allowed()) }

// Rests is the level that is not in force, after the same usage as the bucket. Its
// tokens are infinite if it never was in force.
func (r *Rate) Rests(now stage.Instant) stage.Level {
	r.ChargeResting(now)
	return stage.Level{Limit: r.resting.Limit, Burst: r.resting.Burst, Tokens: r.resting.tokens}
}

// Spent is how many tokens of the level that is not in force the bucket's events took
// and time has not filled in again. Tokens that a cap took are not in it.
func (r *Rate) Spent(now stage.Instant) int64 {
	rests := r.Rests(now)
	rests.Tokens += r.resting.capped
	return rests.Missing()
}

// SetTerms changes the terms; Steer puts them in force. Debts follow: see
// FollowDebt.
func (r *Rate) SetTerms(now stage.Instant, t *Terms) {
	before := r.Terms().Rule.Limit
	r.Base.SetTerms(t)
	r.ChargeResting(now)
	r.resting.tokens = FollowDebt(before, t.Rule, r.resting.tokens)
	if tokens := r.bucket.Tokens(now); tokens < 0 {
		r.bucket.Add(now, FollowDebt(before, t.Rule, tokens)-tokens)
	}
}

// Steer implements Part. Tokens stay with the level that they belong to; a
// first grant starts with what the fallback has left. A debt goes along, because
// callers wait for it to be paid, but takes no longer to pay at a lower rate.
func (r *Rate) Steer(now stage.Instant, hosts int) {
	r.bucket.Drop(now)
	r.ChargeResting(now)
	decides, rests := r.Terms().fallback(hosts), r.granting(hosts)
	valid := r.Valid(now)
	if valid {
		decides, rests = rests, decides
	}
	switch {
	case valid != r.granted:
		r.beyond = false
		kept, less := r.resting.tokens, 1.0
		if decides.Limit < r.inForce.Limit {
			less = float64(decides.Limit / r.inForce.Limit)
		}
		before := r.bucket.Replace(now, bucket.NewPace(decides.Limit, decides.Burst), func(old float64) float64 {
			switch {
			case math.IsInf(kept, 1):
				return old
			case old < 0:
				return min(old*less, kept)
			}
			return kept
		})
		if less == 1 && decides.Limit < rate.Inf { // all of the debt has gone along
			before = max(before, 0)
		}
		r.granted, r.resting.tokens, r.resting.capped = valid, before, 0
	case decides != r.inForce || r.beyond:
		r.beyond = false
		r.bucket.SetPace(now, bucket.NewPace(decides.Limit, decides.Burst))
	}
	r.inForce = decides
	r.SetFallen(now, r.Terms().Reports && !r.granted)
	if valid && r.floor == usage.FloorDrop {
		r.bucket.SetPass(r.weight)
	} else {
		r.bucket.SetPass(1)
	}
	if r.given && (r.granted || r.resting.tokens != inf) { // else it was never in force, and takes over from the bucket
		r.resting.set(now, rests, r.resting.tokens)
	}
}

// Lend implements RatePart.
func (r *Rate) Lend(now stage.Instant, more float64, hosts int) (left float64) {
	r.bucket.Drop(now)
	if r.granted {
		// With the pace in one step: the new depth may be less than what
		// there is now and not less than what there is to be.
		if level := r.granting(hosts); level != r.inForce || r.beyond {
			r.inForce, r.beyond = level, false
			old := r.bucket.Replace(now, bucket.NewPace(level.Limit, level.Burst), func(old float64) float64 { return old + more })
			left = min(old+more, level.Burst)
		} else {
			left = r.bucket.Add(now, more)
		}
		if r.floor != usage.FloorDrop && !r.bucket.Drops() {
			r.ChargeResting(now) // which level is in force does not change
			return left
		}
		r.Steer(now, hosts)
		return r.bucket.Tokens(now)
	}
	before := r.bucket.Tokens(now)
	if before == inf { // nothing was limited until now
		before = 0
	}
	r.ChargeResting(now)
	r.resting.set(now, r.granting(hosts), max(before+more, 0))
	r.Steer(now, hosts)
	return r.bucket.Tokens(now)
}

// Borrow puts tokens into the bucket that the owner has lent, and makes the bucket
// deeper if it cannot hold them, until the next grant. The caller sees to it that
// nothing else changes what is in force meanwhile. InForce may be read, and stays.
func (r *Rate) Borrow(now stage.Instant, tokens float64) {
	if held := max(r.bucket.Tokens(now), 0) + tokens; held > r.bucket.Pace().Burst() {
		r.bucket.Drop(now)
		r.beyond = true
		r.bucket.Replace(now, bucket.NewPace(r.bucket.Pace().Limit(), min(held, r.Terms().Rule.Burst)), func(old float64) float64 { return old + tokens })
		return
	}
	r.bucket.Add(now, tokens)
}

// Alone has the bucket fill as fast as the grant lets it while the owner does not
// answer asks, until the next grant. The caller sees to it that nothing else changes
// what is in force meanwhile.
func (r *Rate) Alone(now stage.Instant) {
	p, fair := r.bucket.Pace(), rate.Limit(min(r.usedLately(), float64(r.Terms().Rule.Limit)))
	if !r.granted || fair <= p.Limit() {
		return
	}
	r.bucket.Drop(now)
	r.beyond = true
	r.bucket.SetPace(now, bucket.NewPace(fair, p.Burst()))
}

// Forget implements Part.
func (r *Rate) Forget(now stage.Instant, hosts int) {
	r.until = now
	r.Steer(now, hosts)
	r.SetGrant(Grant{})
	r.resting.init(now)
}

// Count implements Part.
func (r *Rate) Count(now stage.Instant) bucket.Usage { return r.bucket.Count(now) }

// Inherit implements Part.
func (r *Rate) Inherit(u bucket.Usage) { r.bucket.Inherit(u) }

// Tokens implements Part.
func (r *Rate) Tokens(now stage.Instant) float64 { return r.bucket.Tokens(now) }

// Idle implements Part.
func (r *Rate) Idle(now stage.Instant) bool { return r.bucket.Full(now) && r.Unused(now) }

// Unused reports whether nothing is lost by forgetting r but what is in its bucket.
func (r *Rate) Unused(now stage.Instant) bool {
	if _, stated := r.Stated(); stated {
		return false
	}
	r.ChargeResting(now)
	return r.resting.full()
}

// Retire implements Part.
func (r *Rate) Retire() { r.bucket.SetLowAlways() }

// Refill implements RatePart.
func (r *Rate) Refill(now stage.Instant) {
	r.bucket.Drop(now)
	r.ChargeResting(now)
	lends := r.Terms().Traits.Early
	full := func(tokens, burst float64, granted bool) float64 {
		if granted && lends {
			return max(tokens, 0)
		}
		return burst
	}
	p := r.bucket.Pace()
	r.bucket.Replace(now, p, func(old float64) float64 { return full(old, p.Burst(), r.granted) })
	if rests := &r.resting; rests.tokens != inf {
		rests.tokens, rests.capped = full(rests.tokens, rests.Burst, !r.granted), 0
	}
}
