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
	return decision(b.group.For(key).Decide(ctx, whole(n), bound(longest)))
}

// Hold implements edge.Holder.
func (b Buckets) Hold(ctx context.Context, key string, n int64, longest time.Duration) (d edge.Decision, cancel func()) {
	if !fits(n) {
		return b.tooCostly(ctx, key), func() {}
	}
	held := b.group.For(key).Take(ctx, whole(n), bound(longest))
	return decision(held.Decision()), held.Cancel
}

// Reserve implements edge.Settler.
func (b Buckets) Reserve(ctx context.Context, key string, n int64, longest time.Duration) (d edge.Decision, settle func(cost int64)) {
	if !fits(n) {
		return b.tooCostly(ctx, key), func(int64) {}
	}
	held := b.group.For(key).Take(ctx, whole(n), bound(longest))
	return decision(held.Decision()), func(cost int64) { held.Settle(whole(max(cost, 0))) }
}

// Charge implements edge.Settler.
func (b Buckets) Charge(key string, n int64) edge.Decision {
	if n < 1 {
		return edge.Decision{Reason: edge.InvalidCost}
	}
	of := b.group.For(key)
	if err := of.Refused(); err != nil {
		// A free event is refused for the reason that all are.
		return decision(of.Decide(context.Background(), 0, 0))
	}
	now, bucket := stage.Now(), of.Stage()
	v, _ := bucket.Take(context.Background(), stage.Request{Now: now, N: n, Kind: stage.Charge})
	level := bucket.Level(now)
	if level.Remote {
		level.Tokens = v.Left
	}
	return edge.Decision{OK: true, Limit: events(level.Limit), Burst: level.Burst, Left: level.Tokens}
}

// Look implements edge.Looker.
func (b Buckets) Look(key string) (edge.Bucket, bool) {
	status, ok := b.group.Inspect(key)
	if ok && len(status.Shares) > 0 {
		return live(status), true
	}
	if b.limits == nil {
		return edge.Bucket{}, false
	}
	rule, ok := b.limits().Match(key)
	if !ok {
		return edge.Bucket{}, false
	}
	if status, ok := b.group.Inspect(rule.Key); ok && rule.Shared && len(status.Shares) > 0 {
		return live(status), true
	}
	limit, burst := float64(rule.Limit), rule.Burst
	if rule.InFlight {
		burst = limit
	}
	return edge.Bucket{Rule: rule.Key, Algorithm: answering(rule), Limit: limit, Burst: burst, Left: burst}, true
}

// live is the bucket of a key that is in use.
func live(s limiter.Status) edge.Bucket {
	i := 0
	if s.Mode == dynamicconfig.ModeNew || s.Mode == dynamicconfig.ModeNewShadowOld {
		i = len(s.Shares) - 1
	}
	of := s.Shares[i]
	return edge.Bucket{
		Rule:      s.Rule,
		Algorithm: of.Algorithm,
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
	d := decision(b.group.For(key).Decide(ctx, 0, 0)) // a free event
	if d.OK || d.Reason == edge.Limited {
		d.OK, d.Wait, d.RetryAfter, d.Reason = false, 0, 0, edge.TooCostly
	}
	return d
}

// bound is longest as a limiter takes it, to which less than 0 is no bound.
func bound(longest time.Duration) time.Duration {
	if longest == edge.AsLongAsTheRule {
		return -1
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

func decision(d limiter.Decision) edge.Decision {
	return edge.Decision{
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
