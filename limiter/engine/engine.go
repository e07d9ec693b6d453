// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/edge"
)

// Engine decides by the limiters of a Group. Use New. Safe for concurrent use.
type Engine struct {
	group  *limiter.Group
	limits func() *dynamicconfig.Snapshot
	spare  chan struct{} // one for each goroutine of DecideAll
}

var _ edge.Engine = (*Engine)(nil)

// New returns the Engine of group, which may not be nil. limits returns the rules in force, by which Look describes
// keys that are not in use. If limits is nil, Look does not know such keys.
func New(group *limiter.Group, limits func() *dynamicconfig.Snapshot) *Engine {
	return &Engine{group, limits, make(chan struct{}, maxGoroutines)}
}

// Decide implements edge.Engine.
func (e *Engine) Decide(ctx context.Context, a edge.Ask) edge.Decision {
	switch {
	case a.Kind == edge.Release || a.Kind == edge.Wait:
		return follow(ctx, a)
	case a.Cost < 0 || a.Cost == 0 && a.Kind == edge.Charge:
		return edge.Decision{Reason: edge.InvalidCost}
	case a.Kind == edge.Settle:
		return follow(ctx, a)
	case a.Kind != edge.Charge && ctx.Err() != nil:
		return edge.Decision{Reason: edge.Limited} // no caller would act on it
	}
	of := e.group.For(a.Key)
	switch {
	case a.Kind == edge.Charge:
		return charge(of, a.Cost)
	case int64(whole(a.Cost)) != a.Cost: // on 32-bit platforms
		return tooCostly(ctx, of)
	case a.Kind == edge.Take:
		return take(ctx, of, &a)
	case a.Kind == edge.Hold:
		held := of.Take(ctx, whole(a.Cost), longest(of, &a))
		d := decision(of, held.Decision())
		if d.OK {
			d.Held = held
		}
		return d
	}
	return edge.Decision{Reason: edge.Failed} // there is no such kind
}

// take takes the tokens of a. A caller that has to wait may leave meanwhile.
func take(ctx context.Context, of *limiter.Limiter, a *edge.Ask) edge.Decision {
	most := longest(of, a)
	if most <= 0 {
		return decision(of, of.Decide(ctx, whole(a.Cost), 0))
	}
	said, held := of.DecideWait(ctx, whole(a.Cost), most)
	d := decision(of, said)
	if held != nil {
		d.Held = held
	}
	return d
}

// follow settles, cancels or waits for what a Hold, or a Take that waits, has taken.
func follow(ctx context.Context, a edge.Ask) edge.Decision {
	held, ok := a.Held.(*limiter.Estimate)
	switch {
	case !ok || held == nil:
		return edge.Decision{Reason: edge.Failed} // nothing is held
	case a.Kind == edge.Release:
		held.Cancel()
	case a.Kind == edge.Settle:
		held.Settle(whole(a.Cost))
	case held.Wait(ctx) != nil:
		return edge.Decision{Reason: edge.Limited}
	}
	return edge.Decision{OK: true}
}

// charge takes n tokens that are used already.
func charge(of *limiter.Limiter, n int64) edge.Decision {
	now, bucket := stage.Now(), of.Stage()
	v, _ := bucket.Take(context.Background(), stage.Request{Now: now, N: n, Kind: stage.Charge})
	if !v.OK() {
		// A free event is refused for the reason that all are.
		return decision(of, of.Decide(context.Background(), 0, 0))
	}
	level := bucket.Level(now)
	if level.Remote {
		level.Tokens = v.Left
	}
	return edge.Decision{OK: true, Policy: policy(of.Rule()), Limit: events(level.Limit), Burst: level.Burst, Left: level.Tokens}
}

// whole is n, at least 0, as an int, or the closest there is.
func whole(n int64) int { return int(min(n, math.MaxInt)) }

// tooCostly refuses an event whose cost does not fit.
func tooCostly(ctx context.Context, of *limiter.Limiter) edge.Decision {
	d := decision(of, of.Decide(ctx, 0, 0)) // a free event
	if d.OK || d.Reason == edge.Limited {
		d.OK, d.Wait, d.RetryAfter, d.Reason = false, 0, 0, edge.TooCostly
	}
	return d
}

// longest is how long the event of a may wait. The limiter applies a max_wait that is less.
func longest(of *limiter.Limiter, a *edge.Ask) time.Duration {
	if a.Longest > rule.DefaultMaxWait && (!a.Own || a.Longest == edge.AsLongAsTheRule) {
		return min(a.Longest, of.Rule().LongestWait())
	}
	return max(a.Longest, 0)
}

// events is l in events/s; infinite if it is rate.Inf.
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
	p := edge.Policy{Known: true, Limit: float64(rule.Limit), Burst: rule.Burst, MaxWait: rule.LongestWait()}
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

// reason is r as edges have it: by the same number, but no caller learns that it left.
func reason(r limiter.Reason) edge.Reason {
	switch {
	case r == limiter.Canceled:
		return edge.Limited
	case int(r) < edge.Reasons:
		return edge.Reason(r)
	}
	return edge.Failed
}
