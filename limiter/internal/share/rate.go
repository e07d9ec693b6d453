// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"math"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/forgiven"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Rate is this host's part of a limit in events/s, under one algorithm.
//
// Use NewRate. Allow, Take, Settle, Cap and Level are safe for concurrent use.
type Rate struct {
	levels // the first cache line of its bucket is all that an allowed event touches
	Base
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
	r.active = t.fallback(hosts)
	r.bucket.Init(bucket.NewPace(r.active.Limit, r.active.Burst))
	r.bucket.SetSalt(salt)
	r.bucket.Cap(now, tokens)
	r.inactive.init(now)
	r.Steer(now, hosts)
	return r
}

// ReadLines reads from each cache line of r, so that what comes next does not wait for memory.
// The result keeps the compiler from leaving that out.
func ReadLines(r *Rate) int64 {
	return r.bucket.Allowed() + int64(r.active.Limit) + int64(r.inactive.at) + int64(r.until)
}

// Fetch reads from the cache line of r that decisions write. The compiler leaves out no atomic read.
func Fetch(r *Rate) { r.bucket.Allowed() }

// Allow implements stage.Stage. No caller asks it where the rule has a max_debt, or other terms.
func (r *Rate) Allow(_ context.Context, now stage.Instant) stage.Reason {
	ok, low := r.bucket.Allow(now)
	if low {
		r.RanLow(now, false)
	}
	if !ok {
		return stage.Limited
	}
	return stage.Granted
}

// TakeOne takes one token if there is one. It is Allow for callers that have the Rate.
func (r *Rate) TakeOne(now stage.Instant) bool {
	ok, low := r.bucket.Allow(now)
	if low {
		r.RanLow(now, false)
	}
	return ok
}

// Take implements stage.Stage.
func (r *Rate) Take(_ context.Context, q stage.Request) (v stage.Verdict, receipt stage.Receipt) {
	if q.Kind != stage.Take {
		return r.take(q), receipt
	}
	has := r.extra() // before, so that a switch meanwhile gives back too little and not too much
	if v = r.take(q); v.Reason <= stage.Soft {
		receipt = has.receipt(q.N, v)
	}
	return v, receipt
}

// Overdraw takes the tokens of q from r although they are not there, and counts q as allowed.
func Overdraw(r *Rate, q stage.Request) (v stage.Verdict, receipt stage.Receipt) {
	has, kind := r.extra(), q.Kind
	q.Kind = stage.Charge
	if v = r.take(q); kind == stage.Take {
		receipt = has.receipt(q.N, v)
	}
	return v, receipt
}

// receipt is what a caller may give back of n tokens that a Rate with x took, with v.
func (x *extra) receipt(n int64, v stage.Verdict) (receipt stage.Receipt) {
	if n <= 0 {
		return receipt
	}
	switch receipt.N = n; {
	case math.IsInf(v.Left, 1):
		receipt.Rest = countedOnly{}
	case v.Left < 0:
		receipt.Rest = x.marks.Debt()
	}
	if x.paired {
		receipt.Rest = paired{receipt.Rest}
	}
	return receipt
}

// take decides, without what it takes to undo it.
func (r *Rate) take(q stage.Request) (v stage.Verdict) {
	t, low := r.Terms(), false
	switch {
	case q.N == 1 && q.Kind == stage.Final && q.Longest <= 0 && t.Debt <= 0: // caches may decide
		ok := false
		if ok, low = r.bucket.Allow(q.Now); !ok {
			v.Reason, v.RetryAfter = stage.Limited, r.bucket.RetryAfter(q.Now, 1)
		}
	case q.Kind == stage.Before:
		r.Spend(q.Now, t.Chargeable(q.N))
		v.Left = r.bucket.Tokens(q.Now)
	case q.Kind == stage.Charge:
		v, low = r.bucket.Charge(q.Now, t.Chargeable(q.N), t.borrows(), t.Rule.Costliest())
	default:
		v, low = r.bucket.Take(q, t.Debt)
	}
	if v.Reason == stage.TooCostly {
		// What costs more than the rule allows is not counted: no host can have what it
		// would take, so it is no demand.
		low = float64(q.N) <= t.Rule.Costliest() && r.bucket.Rejected(q.N, v.Left)
	}
	if low {
		r.RanLow(q.Now, false)
	}
	if v.Wait > 0 && v.OK() {
		counter(&r.extras, awaited).Add(q.N)
	}
	v.By = r.by()
	return v
}

// countedOnly marks a Receipt whose tokens no bucket gave.
type countedOnly struct{}

// Settle implements stage.Stage. A remote bucket that was charged with what the receipt is
// for gets as much back, unless it gave the tokens, too. If the key has left r, the part that it has
// now gets what comes back: see Leave.
func (r *Rate) Settle(now stage.Instant, receipt stage.Receipt, actual int64) {
	receipt, both := unpaired(receipt)
	actual = max(actual, 0)
	back := r.Back(receipt, actual)
	if back > 0 && r.extra().passesOn(receipt) {
		if to := r.Successor(); to != nil {
			if receipt.N = back; receipt.Rest != (countedOnly{}) {
				receipt.Rest = nil // back is less by what was forgiven
			}
			if both {
				receipt.Rest = paired{receipt.Rest}
			}
			to.Settle(now, receipt, 0)
			return
		}
	}
	if back > 0 && !both {
		r.extra().refundPrecharge(now, back)
	}
	switch {
	case receipt.N == 0:
	case actual > receipt.N:
		r.Take(context.Background(), stage.Request{Now: now, N: actual - receipt.N, Kind: stage.Charge})
	case receipt.Rest == countedOnly{}:
		r.Uncount(back)
	case back > 0:
		r.bucket.Refund(now, back)
		GiveBack(r, back)
	}
}

// Spend takes n tokens that are spent already, without counting them.
func (r *Rate) Spend(now stage.Instant, n int64) {
	t := r.Terms()
	r.bucket.Spend(now, n, t.borrows(), t.Rule.Costliest())
}

// Own implements RatePart.
func (r *Rate) Own() *Rate { return r }

// SetTerms implements Part. Debts follow: see forgiven.Follow.
func (r *Rate) SetTerms(now stage.Instant, t *Terms) {
	before, closed := r.Terms().Rule.Limit, r.Terms().fallback(1).Burst == 0
	r.Base.SetTerms(now, t)
	r.ChargeInactive(now)
	if closed && r.granted && r.inactive.tokens > 0 && t.fallback(1).Burst > 0 { // a closed fallback had none
		r.inactive.replace(0)
	}
	tokens, kept := r.bucket.Tokens(now), r.inactive.tokens
	decides, inactive := forgiven.Follow(before, t.Rule, tokens), forgiven.Follow(before, t.Rule, kept)
	r.mark(r.extra().marks.Change(
		func(of forgiven.Mark) forgiven.Mark { return of.After(tokens, decides) },
		func(own forgiven.Mark) forgiven.Mark { return own.After(kept, inactive) },
	))
	if r.inactive.tokens = inactive; tokens < 0 {
		r.bucket.Add(now, decides-tokens)
		if less := t.Rule.Limit / before; less > 0 && less < 1 { // the next level compares itself with the one that the debt follows
			r.active.Limit, r.raised = r.active.Limit*less, true
		}
	}
}

// Steer implements Part. Tokens stay with the level that they belong to; a
// first grant starts with what the fallback has left. A debt goes along, because
// callers wait for it to be paid, but takes no longer to pay at a lower rate.
func (r *Rate) Steer(now stage.Instant, hosts int) {
	r.bucket.Drop(now)
	r.ChargeInactive(now)
	decides, inactive := r.Terms().fallback(hosts), r.granting(hosts)
	valid, closed := r.Valid(now), decides.Burst == 0
	if valid {
		decides, inactive = inactive, decides
	}
	switch {
	case valid != r.granted:
		r.raised = false
		kept, less := r.inactive.tokens, 1.0
		if decides.Limit < r.active.Limit {
			less = float64(decides.Limit / r.active.Limit)
		}
		was, along := r.extra().marks, false
		is := was
		before := r.bucket.Replace(now, bucket.NewPace(decides.Limit, decides.Burst), func(old float64) float64 {
			is, along = was, true
			switch {
			case math.IsInf(kept, 1):
				is = was.Carried(1)
				return old
			case old < 0 && old*less <= kept:
				is = was.Carried(less)
				return old * less
			case old < 0 || kept < 0:
				is = was.Parted()
			}
			along = false
			return kept
		})
		r.mark(is)
		if along && less == 1 && decides.Limit < rate.Inf { // all of the debt has gone along
			before = max(before, 0)
		}
		if r.granted = valid; closed {
			r.inactive.replace(before)
		} else {
			r.inactive.tokens, r.inactive.capped = before, 0
		}
	case decides != r.active || r.raised:
		r.raised = false
		r.bucket.SetPace(now, bucket.NewPace(decides.Limit, decides.Burst))
	}
	r.active = decides
	r.SetFallback(now, r.Terms().Reports && !r.granted)
	if valid && r.floor == usage.FloorDrop {
		r.bucket.SetPass(r.weight)
	} else {
		r.bucket.SetPass(1)
	}
	if r.given && (r.granted || r.inactive.tokens != inf) { // else it was never in force, and takes over from the bucket
		if inactive = inactive.limited(r.Terms()); closed {
			if r.granted { // while the fallback is not in force, the host's even part takes its place
				inactive = r.Terms().Even(hosts)
			}
			r.inactive.setBesideClosed(now, inactive, r.granted)
			return
		}
		r.inactive.set(now, inactive, r.inactive.tokens)
	}
}

// inactiveOpen reports whether the inactive level limits nothing.
func (r *Rate) inactiveOpen() bool {
	if r.granted {
		return r.Terms().fallback(1).Limit == rate.Inf
	}
	return r.given && r.floor == usage.FloorDrop
}

// Inactive is the inactive level, after the same usage as the bucket. Its
// tokens are infinite if it never was in force.
func (r *Rate) Inactive(now stage.Instant) stage.Level {
	r.ChargeInactive(now)
	level := stage.Level{Limit: r.inactive.Limit, Burst: r.inactive.Burst, Tokens: r.inactive.tokens}
	if r.inactiveOpen() {
		level.Limit = rate.Inf
	}
	return level
}

// Spent is how many tokens of the inactive level the bucket's events took
// and time has not filled in again. Tokens that a cap took are not in it.
func (r *Rate) Spent(now stage.Instant) int64 {
	r.ChargeInactive(now)
	kept := &r.inactive // also if it limits nothing: see Level.limited
	return stage.Level{Burst: kept.Burst, Tokens: kept.tokens + kept.capped}.Missing()
}

// Lend implements RatePart.
func (r *Rate) Lend(now stage.Instant, more float64, hosts int) (left float64) {
	r.bucket.Drop(now)
	if r.granted {
		// With the pace in one step: the new depth may be less than what
		// there is now and not less than what there is to be.
		if level := r.granting(hosts); level != r.active || r.raised {
			r.active, r.raised = level, false
			old := r.bucket.Replace(now, bucket.NewPace(level.Limit, level.Burst), func(old float64) float64 { return old + more })
			left = min(old+more, level.Burst)
		} else {
			left = r.bucket.Add(now, more)
		}
		if r.floor != usage.FloorDrop && !r.bucket.Drops() {
			r.ChargeInactive(now) // which level is in force does not change
			return left
		}
		r.Steer(now, hosts)
		return r.bucket.Tokens(now)
	}
	before := r.bucket.Tokens(now)
	if before == inf { // nothing was limited until now
		before = 0
	}
	r.ChargeInactive(now)
	r.inactive.replace(max(before+more, 0))
	r.Steer(now, hosts)
	return r.bucket.Tokens(now)
}

// Borrow puts tokens into the bucket that the owner has lent, and makes the bucket
// deeper if it cannot hold them, until the next grant. The caller sees to it that
// nothing else changes what is in force meanwhile. Active may be read, and stays.
func (r *Rate) Borrow(now stage.Instant, tokens float64) {
	if held := max(r.bucket.Tokens(now), 0) + tokens; held > r.bucket.Pace().Burst() {
		r.bucket.Drop(now)
		r.raised = true
		r.bucket.Replace(now, bucket.NewPace(r.bucket.Pace().Limit(), min(held, r.Terms().Rule.Burst)), func(old float64) float64 { return old + tokens })
		return
	}
	r.bucket.Add(now, tokens)
}

// Alone has the bucket fill as fast as the grant lets it while the owner does not
// answer asks, until the next grant. The caller sees to it that nothing else changes
// what is in force meanwhile.
func (r *Rate) Alone(now stage.Instant) {
	p, fair := r.bucket.Pace(), rate.Limit(min(r.UsedLately(), float64(r.Terms().Rule.Limit)))
	if !r.granted || fair <= p.Limit() {
		return
	}
	r.bucket.Drop(now)
	r.raised = true
	r.bucket.SetPace(now, bucket.NewPace(fair, p.Burst()))
}

// Forget implements Part.
func (r *Rate) Forget(now stage.Instant, hosts int) {
	r.until = now
	r.Steer(now, hosts)
	r.SetGrant(Grant{})
	r.inactive.init(now)
}

// Idle implements Part.
func (r *Rate) Idle(now stage.Instant) bool { return r.bucket.Full(now) && r.Unused(now) }

// Unused reports whether nothing is lost by forgetting r but what is in its bucket.
func (r *Rate) Unused(now stage.Instant) bool {
	if _, stated := r.Stated(); stated {
		return false
	}
	r.ChargeInactive(now)
	return r.inactive.full(r.Terms().Rule.Limit) || r.inactiveOpen()
}

// Refill implements RatePart.
func (r *Rate) Refill(now stage.Instant) {
	r.bucket.Drop(now)
	r.ChargeInactive(now)
	lends := r.Terms().Traits.Early
	full := func(tokens, burst float64, granted bool) float64 {
		if granted && lends {
			return max(tokens, 0)
		}
		return burst
	}
	r.mark(r.extra().marks.Change(forgiven.Mark.Reset, forgiven.Mark.Reset)) // first: what is taken afterwards is not forgiven
	p := r.bucket.Pace()
	r.bucket.Replace(now, p, func(old float64) float64 { return full(old, p.Burst(), r.granted) })
	if inactive := &r.inactive; inactive.tokens != inf {
		inactive.tokens, inactive.capped = full(inactive.tokens, inactive.Burst, !r.granted), 0
	}
}

// RefillElsewhere implements RatePart: there is no such bucket.
func (*Rate) RefillElsewhere(context.Context, stage.Instant) error { return nil }
