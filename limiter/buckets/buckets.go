// SPDX-License-Identifier: Apache-2.0

package buckets

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/edge"
)

// Buckets are the limiters of a Group. Use Of. Safe for concurrent use.
type Buckets struct {
	group  *limiter.Group
	limits func() *dynamicconfig.Snapshot
}

var (
	_ edge.Holder  = Buckets{}
	_ edge.Settler = Buckets{}
	_ edge.Looker  = Buckets{}
)

// Of returns the limiters of group. limits tells what is in force, for keys
// that are not in use; nil: nobody does, and such keys are shown as unknown.
func Of(group *limiter.Group, limits func() *dynamicconfig.Snapshot) Buckets {
	return Buckets{group, limits}
}

// Decide implements edge.Buckets.
func (b Buckets) Decide(ctx context.Context, key string, n int64, longest time.Duration) edge.Decision {
	if !fits(n) {
		return b.tooCostly(ctx, key)
	}
	of := b.group.For(key)
	return decision(of, of.Decide(ctx, whole(n), bound(of, longest)))
}

// Hold implements edge.Holder.
func (b Buckets) Hold(ctx context.Context, key string, n int64, longest time.Duration) (d edge.Decision, cancel func()) {
	if !fits(n) {
		return b.tooCostly(ctx, key), func() {}
	}
	of := b.group.For(key)
	held := of.Take(ctx, whole(n), bound(of, longest))
	return decision(of, held.Decision()), held.Cancel
}

// Reserve implements edge.Settler.
func (b Buckets) Reserve(ctx context.Context, key string, n int64, longest time.Duration) (d edge.Decision, settle func(cost int64)) {
	if !fits(n) {
		return b.tooCostly(ctx, key), func(int64) {}
	}
	of := b.group.For(key)
	held := of.Take(ctx, whole(n), bound(of, longest))
	return decision(of, held.Decision()), func(cost int64) { held.Settle(whole(max(cost, 0))) }
}

// Charge implements edge.Settler.
func (b Buckets) Charge(key string, n int64) edge.Decision {
	if n < 1 {
		return edge.Decision{Reason: edge.InvalidCost}
	}
	of := b.group.For(key)
	if err := of.Refused(); err != nil {
		// A free event is refused for the reason that all are.
		return decision(of, of.Decide(context.Background(), 0, 0))
	}
	now, bucket := stage.Now(), of.Stage()
	v, _ := bucket.Take(context.Background(), stage.Request{Now: now, N: n, Kind: stage.Charge})
	level := bucket.Level(now)
	if level.Remote {
		level.Tokens = v.Left
	}
	return edge.Decision{OK: true, Policy: policy(of.Rule()), Limit: events(level.Limit), Burst: level.Burst, Left: level.Tokens}
}

// Look implements edge.Looker.
func (b Buckets) Look(key string) (edge.Bucket, bool) {
	var rule *dynamicconfig.Rule
	if b.limits != nil {
		rule, _ = b.limits().Match(key)
	}
	if status, ok := b.group.Inspect(key); ok && len(status.Shares) > 0 {
		return live(rule, status), true
	}
	if rule == nil {
		return edge.Bucket{}, false
	}
	if status, ok := b.group.Inspect(rule.Key); ok && rule.Shared && len(status.Shares) > 0 {
		return live(rule, status), true
	}
	full := policy(rule)
	return edge.Bucket{Rule: rule.Key, Algorithm: answering(rule), Policy: full, Limit: full.Limit, Burst: full.Burst, Left: full.Burst}, true
}

// MaxWait implements edge.Looker.
func (b Buckets) MaxWait(key string) time.Duration { return maxWait(b.group.For(key)) }

func maxWait(of *limiter.Limiter) time.Duration {
	rule := of.Rule()
	switch {
	case rule == nil:
		return edge.DefaultMaxWait
	case rule.MaxWait != 0:
		return max(rule.MaxWait, 0) // which may be dynamicconfig.None
	}
	return max(rule.MaxDebt, edge.DefaultMaxWait) // events wait for the debts that the rule lets others make
}

// live is the bucket of a key that is in use, and that rule matches, if not nil.
func live(rule *dynamicconfig.Rule, s limiter.Status) edge.Bucket {
	i := 0
	if s.Mode == dynamicconfig.ModeNew || s.Mode == dynamicconfig.ModeNewShadowOld {
		i = len(s.Shares) - 1
	}
	of := s.Shares[i]
	return edge.Bucket{
		Rule:      s.Rule,
		Algorithm: of.Algorithm,
		Policy:    policy(rule),
		Limit:     events(of.Level.Limit),
		Burst:     of.Level.Burst,
		Left:      of.Level.Tokens,
		Live:      true,
		Fallback:  of.Fallback,
	}
}

// answering is the algorithm that answers under rule.
func answering(rule *dynamicconfig.Rule) string {
	m := rule.Migration
	switch {
	case m == nil:
		return rule.Algorithm
	case m.Mode == dynamicconfig.ModeOld || m.Mode == dynamicconfig.ModeOldShadowNew:
		return m.From
	default:
		return m.To
	}
}

// whole is n as an int, or the closest there is.
func whole(n int64) int {
	return int(min(max(n, math.MinInt), math.MaxInt))
}

// fits reports whether whole(n) is n, or both are negative. It is false for
// large costs on 32-bit platforms.
func fits(n int64) bool { return n < 0 || int64(whole(n)) == n }

// tooCostly refuses an event whose cost does not fit.
func (b Buckets) tooCostly(ctx context.Context, key string) edge.Decision {
	of := b.group.For(key)
	d := decision(of, of.Decide(ctx, 0, 0)) // a free event
	if d.OK || d.Reason == edge.Limited {
		d.OK, d.Wait, d.RetryAfter, d.Reason = false, 0, 0, edge.TooCostly
	}
	return d
}

// bound is longest as a limiter takes it.
func bound(of *limiter.Limiter, longest time.Duration) time.Duration {
	if longest == edge.AsLongAsTheRule {
		return maxWait(of)
	}
	return max(longest, 0)
}

// events is l with the infinity that numbers have.
func events(l rate.Limit) float64 {
	if l == rate.Inf {
		return math.Inf(1)
	}
	return float64(l)
}

// policy is what rule says; nil says nothing.
func policy(rule *dynamicconfig.Rule) edge.Policy {
	if rule == nil {
		return edge.Policy{}
	}
	p := edge.Policy{Known: true, Limit: float64(rule.Limit), Burst: rule.Burst}
	if rule.InFlight {
		p.Burst = p.Limit
	}
	return p
}

func decision(of *limiter.Limiter, d limiter.Decision) edge.Decision {
	var p edge.Policy
	if d.Reason != limiter.TooManyKeys { // then the key has no bucket
		p = policy(of.Rule())
	}
	return edge.Decision{
		Policy:     p,
		OK:         d.OK,
		Reason:     reason(d.Reason),
		Wait:       d.Wait,
		RetryAfter: d.RetryAfter,
		Limit:      events(d.Limit),
		Burst:      d.Burst,
		Left:       d.Left,
	}
}

// reason is the one of the same number there, where no caller is told that it left.
func reason(r limiter.Reason) edge.Reason {
	switch {
	case r == limiter.Canceled:
		return edge.Limited
	case int(r) < edge.Reasons:
		return edge.Reason(r)
	}
	return edge.Failed
}
