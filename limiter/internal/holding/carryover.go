// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"slices"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// carryover is what a key carries over a change that its parts cannot show. If a rule comes back that had vanished, or was
// another kind of limit meanwhile, the key gets no second burst, and has the demand that
// was stated. The Set's mu guards the carryover of a live key.
type carryover struct {
	account
	slots *share.Slots // retired; nil if there were none
	wants [2]float64   // events/s, and slots, that the service stated; or Measured
}

// noWants are the wants of a carryover if the service stated none.
var noWants = [2]float64{share.Measured, share.Measured}

// carryOver is the carryover of next; nil if there is nothing to carry over.
func (b *before) carryOver(next *Holding) *carryover {
	c := carryover{account: b.account, slots: b.heldSlots(), wants: noWants}
	if b.carried() != nil {
		c.wants = b.carried().wants
	}
	first := b.pair[0]
	if first != nil && next.pair[0] != first {
		if wants, stated := first.Part().Common().Stated(); stated {
			c.wants[unit(first)] = wants
		}
	}
	if next.pair[0] != nil {
		c.wants[unit(next.pair[0])] = share.Measured
	}
	switch r := next.answering(); {
	case next.Has() && next.plan.Rule.InFlight:
		c.slots = nil
	case r != nil:
		level := next.Stage.Level(b.now)
		// Also if nothing is limited.
		c.hidden = !level.Remote && (r.Granted() || c.tokens > 1e-6 && !(level.Burst-level.Tokens > c.tokens-1e-6))
		c.partOnly = 0 // else its burst was raised while it was full, or a grant lent it less than there was
		if !level.Remote && !r.Granted() && level.Limit < rate.Inf {
			c.partOnly = max(level.Burst-level.Tokens-c.tokens, 0)
		}
		c.issuer = next.pair[next.plan.Answers]
	}
	if c.allowed, c.back = 0, 0; c.issuer != nil {
		c.allowed, c.back = allowedBy(c.issuer), share.GivenBack(c.issuer.Rate)
	}
	heard := slices.ContainsFunc(next.Parts(), func(p share.Part) bool { // then it must be known until when, and what was used before
		of := remote.Of(p)
		return of != nil && (of.Heard.Operations.Load() > 0 || c.allowed != 0)
	})
	allowsNothing := c.rule != nil && c.rule.Limit <= 0 && c.uncut > 0 // until another rule does, nothing comes in
	if c.slots == nil && c.full(b.now) && !allowsNothing && !c.keepsBurst() && !c.stated() && !heard {
		return nil
	}
	still := c // a key that nothing is missing of carries nothing: c is not on the heap
	return &still
}

// stated reports whether the service stated a demand.
func (c *carryover) stated() bool { return max(c.wants[0], c.wants[1]) >= 0 }

// empty reports whether nothing is lost by forgetting c, which may be nil: its buckets would be
// full by now, no slots are held, and no demand is stated.
func (c *carryover) empty(now stage.Instant) bool {
	return c == nil || !c.stated() && (c.slots == nil || !c.slots.Census().Busy()) && c.full(now)
}

// unit is the index in carryover.wants of what s limits.
func unit(s *report.Subject) int {
	if s.Slots() != nil {
		return 1
	}
	return 0
}

// pooled reports whether the owner of a key has a pool for the algorithm of Terms of this name.
func pooled(name string) bool {
	algorithm, _ := dynamicconfig.Plain(name)
	traits, _ := dynamicconfig.TraitsOf(algorithm)
	return traits.Pooled
}
