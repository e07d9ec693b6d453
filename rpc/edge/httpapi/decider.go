// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"context"

	"github.com/headgate/headgate/rpc/edge"
)

// decider has an engine decide what a program may ask, and counts it. Safe for
// concurrent use.
type decider struct {
	engine  Engine
	may     func(ctx context.Context, kind edge.Kind, key string) error
	metrics *metrics
}

// decide has the engine decide about q. If the program may not ask that, forbidden says why.
func (g *decider) decide(ctx context.Context, q *ask, kind edge.Kind) (d edge.Decision, forbidden error) {
	d = edge.Decision{Reason: edge.Forbidden}
	if forbidden = g.may(ctx, kind, *q.Key); forbidden == nil {
		d = g.engine.Decide(ctx, q.as(kind))
	}
	g.metrics.decided(&d)
	return d, forbidden
}

// decideAll has the engine hold the tokens for all of qs. If the program leaves while
// owners are asked, all that was taken goes back.
func (g *decider) decideAll(ctx context.Context, qs []ask) (decisions []edge.Decision, forbidden []error) {
	asks := make([]edge.Ask, len(qs))
	for i := range qs {
		asks[i] = qs[i].as(edge.Hold)
	}
	decisions, forbidden = g.decideAllowed(ctx, asks)
	if ctx.Err() != nil {
		g.release(decisions)
		for i := range decisions {
			if decisions[i].OK {
				decisions[i] = edge.Decision{Reason: edge.Limited}
			}
		}
	}
	for i := range decisions {
		g.metrics.decided(&decisions[i])
	}
	return decisions, forbidden
}

// decideAllowed has the engine decide about those of asks that the program may ask. Takes
// that are held until the answer is written are takes too. Of the others, forbidden says why.
func (g *decider) decideAllowed(ctx context.Context, asks []edge.Ask) (decisions []edge.Decision, forbidden []error) {
	forbidden = make([]error, len(asks))
	allowed := make([]edge.Ask, 0, len(asks))
	for i := range asks {
		if forbidden[i] = g.may(ctx, edge.Take, asks[i].Key); forbidden[i] == nil {
			allowed = append(allowed, asks[i])
		}
	}
	decided := g.engine.DecideAll(ctx, allowed)
	if len(allowed) == len(asks) {
		return decided, forbidden
	}
	decisions = make([]edge.Decision, len(asks))
	next := 0
	for i := range decisions {
		if forbidden[i] != nil {
			decisions[i].Reason = edge.Forbidden
			continue
		}
		decisions[i] = decided[next]
		next++
	}
	return decisions, forbidden
}

// release gives back what is held.
func (g *decider) release(decisions []edge.Decision) {
	for i := range decisions {
		if held := decisions[i].Held; held != nil {
			g.engine.Decide(context.Background(), edge.Ask{Kind: edge.Release, Held: held})
		}
	}
}
