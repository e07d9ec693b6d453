// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"math"
	"slices"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// carryover is what a key carries over a change that its parts cannot show: its rule vanished, or
// became another kind of limit, or has a level that cannot show what is missing, such as a closed
// fallback's. If the rule comes back, the key gets no second burst, and has the demand
// that was stated. The Set's mu guards the carryover of a live key.
type carryover struct {
	// These are the tokens that were left at an instant, of a burst, and how fast they fill. ruleLimit and
	// ruleBurst are those of the whole rule, of which limit and burst are a part.
	tokens, burst, ruleBurst float64
	limit, ruleLimit         rate.Limit
	at                       stage.Instant

	// These are counts at that instant: what the Rate that answers, or else the issuer, had allowed, and how much of
	// that callers had given back to a remote bucket.
	allowed, returned int64

	issuer *report.Subject // the part that answered last, while none answers; else nil

	charged // which remote bucket knows what is missing

	slots *share.Slots // retired; nil if there were none
	wants [2]float64   // events/s, and slots, that the service stated; or Measured
}

// charged is which remote bucket has been charged with what a carryover lacks. The zero charged is none.
type charged struct {
	// chargedTo is the algorithm of that bucket, which has been charged with all but uncharged; empty if there is
	// none. measured says that the bucket was only measured, or lent: the tokens were on this host. alone says that the
	// owner of the key has no other pool than that. roomier says that the bucket may have more than the carryover's
	// burst: it was not asked since the rule's burst changed.
	chargedTo                string
	measured, alone, roomier bool
	uncharged                int64
}

// noCarryover is the carryover of a key that had no rule before.
var noCarryover = carryover{tokens: math.Inf(1), wants: [2]float64{share.Measured, share.Measured}}

// carryOver is what the next Holding begins with: b's own carryover, or the level of b's parts if that
// lacks more. A next Holding with parts must be told how much was
// used, because a grant lends fewer tokens than its bucket holds.
func (b *before) carryOver(parts bool) carryover {
	c := noCarryover
	if b.carried() != nil {
		c = *b.carried()
	}
	c.slots = b.heldSlots()
	if !math.IsInf(c.tokens, 1) {
		c.uncharged = c.unchargedAt(b.now, b.hosts) + b.usedSince(b.refundedRemotely())
		c.tokens, c.at = b.carriedLevel().Tokens, b.now
	}
	if c.issuer = b.issuer(); c.issuer != nil {
		c.count(c.issuer)
	}
	if first := b.pair[0]; first == nil || first.Slots() != nil {
		return c
	}
	level, limited := b.partsLevel()
	if !limited {
		return c
	}
	if !level.Remote {
		recent := b.recentUse(b.Stage.Level(b.now))
		if r := b.answering(); r != nil && recent > level.Missing() { // more than a grant's bucket can show
			had := level.Tokens
			level = r.Inactive(b.now)
			if level.Tokens = level.Burst - float64(recent); had < 0 { // the inactive level does not have that debt
				level.Tokens = min(level.Tokens, had)
			}
		} else if parts {
			level.Tokens = max(level.Tokens, level.Burst-float64(recent))
		}
	}
	more := math.IsInf(c.tokens, 1) || level.Missing() > c.missing() || level.Missing() == c.missing() && c.chargedTo == ""
	if level.Limit < rate.Inf && (more || level.Remote) {
		c.tokens, c.burst, c.limit, c.at = level.Tokens, level.Burst, level.Limit, b.now
		c.ruleLimit, c.ruleBurst = b.plan.Rule.Limit, b.plan.Rule.Burst
		c.charged = charged{}
		if level.Remote {
			c.chargedTo = b.plan.answering()
		}
	}
	if of, refused := b.measuredRemote(); of != "" {
		if c.chargedTo == "" {
			c.chargedTo, c.measured = of, true
		}
		if c.chargedTo == of {
			c.uncharged = refused
		}
	}
	if s, pool := lender(b); s != nil && (c.chargedTo == "" || c.chargedTo == pool) {
		c.measured = c.measured || c.chargedTo == ""
		c.chargedTo, c.uncharged = pool, s.Unreported(b.now)+s.Uncharged()
	}
	return c
}

// stillCarried is the part of c, which b carries over, that next cannot show itself; nil if
// next shows all of it.
func (b *before) stillCarried(c carryover, next *Holding) *carryover {
	first := b.pair[0]
	if first != nil && next.pair[0] != first {
		if wants, stated := first.Part().Common().Stated(); stated {
			c.wants[unit(first)] = wants
		}
	}
	switch {
	case next.Has() && next.plan.Rule.InFlight:
		c.slots = nil
	case next.pair[0] != nil:
		c.follow(next.plan.Rule, b.hosts)
		c.chargedTo, c.alone = c.poolAfter(b.plan, next.plan)
		// A remote bucket has been charged with what was used. A bucket on this host shows
		// it until the grant changes, but does not show that a remote bucket has been charged.
		shows := c.chargedTo == "" && (next.answering() == nil || !next.answering().Granted())
		if level := next.Stage.Level(b.now); c.missing() == 0 && !c.roomier || level.Remote || shows && level.Missing() >= c.missing() {
			c.tokens, c.charged = math.Inf(1), charged{}
		}
		if next.answering() != nil {
			c.issuer = nil
			c.count(next.pair[next.plan.Answers])
		}
	}
	if next.pair[0] != nil {
		c.wants[unit(next.pair[0])] = share.Measured
	}
	if c.slots == nil && math.IsInf(c.tokens, 1) && !c.stated() {
		return nil
	}
	still := c // most keys carry nothing: c is not on the heap
	return &still
}

// count notes what the Rate of s has counted until now.
func (c *carryover) count(s *report.Subject) {
	c.allowed, c.returned = allowedBy(s), s.Rate.Returned()
}

// stated reports whether the service stated a demand.
func (c *carryover) stated() bool { return max(c.wants[0], c.wants[1]) >= 0 }

// missing is how many tokens c lacks; 0 if it has none.
func (c *carryover) missing() int64 {
	return stage.Level{Limit: c.limit, Burst: c.burst, Tokens: c.tokens}.Missing()
}

// follow has c fill and hold in proportion to the limit and the burst of another rule, which a debt follows, too. A
// remote bucket that is not asked keeps what a smaller burst has no room for.
func (c *carryover) follow(rule *dynamicconfig.Rule, hosts int) {
	c.tokens = share.FollowDebt(c.ruleLimit, rule, c.tokens)
	if c.ruleLimit > 0 && rule.Limit > 0 {
		c.limit, c.ruleLimit = c.limit*rule.Limit/c.ruleLimit, rule.Limit
	}
	if c.ruleBurst > 0 && rule.Burst > 0 && !math.IsInf(c.tokens, 1) {
		c.burst, c.ruleBurst = c.burst*rule.Burst/c.ruleBurst, rule.Burst
		c.roomier = c.chargedTo != "" && !pooled(c.chargedTo) // an owner follows its key's rule
		c.uncharged, c.tokens = c.unchargedAt(c.at, hosts), min(c.tokens, c.burst)
	}
}

// unchargedAt is uncharged at now, with what a roomier bucket has beyond burst: one of hosts' part of it.
func (c *carryover) unchargedAt(now stage.Instant, hosts int) int64 {
	over := max(c.tokensAt(now)-c.burst, 0)
	switch {
	case !c.roomier:
		return c.uncharged
	case !c.measured:
		over /= float64(hosts)
	}
	return c.uncharged + int64(over)
}

// tokensAt is how many tokens there are at now.
func (c *carryover) tokensAt(now stage.Instant) float64 {
	return c.tokens + float64(c.limit)*max(now.Sub(c.at), 0).Seconds()
}

// tokensFor is how many tokens the next Holding may begin with: see before.tokensFor.
func (c *carryover) tokensFor(local bool, now stage.Instant, hosts int) float64 {
	if local && c.chargedTo != "" && !c.measured {
		return min(c.tokensAt(now), c.burst) / float64(hosts)
	}
	return c.tokensAt(now)
}

// empty reports whether nothing is lost by forgetting c, which may be nil: its
// bucket would be full by now, no slots are held, and no demand is stated.
func (c *carryover) empty(now stage.Instant) bool {
	return c == nil || !c.stated() && (c.slots == nil || !c.slots.Census().Busy()) && (share.NoRate(c.limit, c.ruleLimit) || c.tokensAt(now) >= c.burst)
}

// unit is the index in carryover.wants of what s limits.
func unit(s *report.Subject) int {
	if s.Slots() != nil {
		return 1
	}
	return 0
}

// unknownPool is the chargedTo of a carryover if no pool has been charged, or if the host does not know which.
const unknownPool = "-"

// poolAfter is which pool has been charged after a change of plans from was, which
// may be nil, to next, and whether the owner has no other. The owner of a key has a pool under each of exact, auto
// and elastic that the key's rule mentions. Once one of them answers, those that the rule does not
// mention end. The one that answers goes on with the tokens of a pool that ends, unless it was
// there before.
func (c *carryover) poolAfter(was, next *Plan) (chargedTo string, alone bool) {
	if chargedTo = c.chargedTo; !pooled(chargedTo) {
		return chargedTo, false
	}
	alone = c.alone || was.answering() == chargedTo && len(was.pools()) == 1
	if to := next.answering(); pooled(to) && !slices.Contains(next.pools(), chargedTo) {
		if !alone {
			return unknownPool, false
		}
		chargedTo = to
	}
	others := slices.ContainsFunc(next.pools(), func(pool string) bool { return pool != chargedTo })
	return chargedTo, alone && !others
}

// pooled reports whether the owner of a key has one pool for this algorithm and others.
func pooled(algorithm string) bool {
	traits, _ := dynamicconfig.TraitsOf(algorithm)
	return traits.Pooled
}
