// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"math"
	"slices"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// before is a Holding at the instant at which another one replaces it. It answers how many
// tokens are left and how many were used, so that the next Holding gives no second burst.
type before struct {
	*Holding
	now   stage.Instant
	hosts int
}

// level is how many tokens the Stage of b has left. While nothing limits it, the carryover says.
func (b *before) level() stage.Level {
	level, limited := b.partsLevel()
	if carried := b.carriedLevel(); !limited && carried.Limit < rate.Inf {
		return carried
	}
	return level
}

// partsLevel is level without the carryover. While the Stage is unlimited, it is the
// inactive level of the part that answers. limited is false if that is unlimited, too.
func (b *before) partsLevel() (level stage.Level, limited bool) {
	if level = b.Stage.Level(b.now); level.Limit < rate.Inf {
		return level, true
	}
	if r := b.answering(); r != nil {
		if inactive := r.Inactive(b.now); !math.IsInf(inactive.Tokens, 1) {
			return inactive, true
		}
	}
	return level, false
}

// tokensFor is how many tokens the next Holding may begin with. If its bucket is on this host and b's is
// remote, that is this host's even part of what the remote bucket has for all hosts, and no more than the host
// had before it asked the remote bucket. While the remote bucket does not answer, the host's own level counts.
func (b *before) tokensFor(local bool) float64 {
	level := b.level()
	switch {
	case !local:
		return level.Tokens
	case !level.Remote:
		return level.Tokens + b.notLent(level)
	}
	if _, inFallback := b.Answering().InFallback(); inFallback {
		return level.Tokens
	}
	even := (level.Tokens + level.Above) / float64(b.hosts)
	if level.Above > 0 {
		return min(level.Tokens, even)
	}
	return even
}

// notLent is this host's even part of what the owner of b's key has not lent, if the host asks it for what its grant
// does not cover. With its own tokens at level, the host has no more than its even part of a burst, less what it has used recently.
func (b *before) notLent(level stage.Level) float64 {
	if b.answering() == nil {
		return 0
	}
	own, hosts := max(level.Tokens, 0), float64(b.hosts)
	return max(min(remote.NotLent(b.now, b.Answering())/hosts, b.plan.Rule.Burst/hosts-float64(b.recentUse(level))-own), 0)
}

// carriedLevel is the level of b's carryover once it has paid for what b allowed since; its
// tokens are infinite if there is no carryover. What b allowed makes no debt that b does not have.
func (b *before) carriedLevel() stage.Level {
	c := b.carried()
	if c == nil || math.IsInf(c.tokens, 1) {
		return stage.Level{Limit: rate.Inf, Tokens: math.Inf(1)}
	}
	filled := min(c.tokensAt(b.now), c.burst)
	deepest := min(filled, 0)
	if r := b.answering(); r != nil {
		deepest = min(deepest, r.Tokens(b.now))
	}
	tokens := max(filled-float64(b.usedSince(0)), deepest)
	if b.answering() == nil && c.issuer != nil {
		tokens = b.withRefunds(filled)
	}
	return stage.Level{Limit: c.limit, Burst: c.burst, Tokens: tokens, Remote: c.chargedTo != "" && !c.measured}
}

// withRefunds adds what callers gave back while no Rate answered to the filled tokens of the
// carryover. Those tokens went to the part that answered before, so the sum is at most what that has.
func (b *before) withRefunds(filled float64) float64 {
	c := b.carried()
	level := stageOf(c.issuer).Level(b.now)
	if level.Limit >= rate.Inf {
		return filled
	}
	return max(min(filled+float64(c.allowed-allowedBy(c.issuer)), c.burst, level.Tokens), filled)
}

// issuer is the part whose tokens callers may still give back: the one that answers,
// or else the one that answered before; nil if none did.
func (b *before) issuer() *report.Subject {
	switch {
	case b.answering() != nil:
		return b.pair[b.plan.Answers]
	case b.carried() != nil:
		return b.carried().issuer
	default:
		return nil
	}
}

// lender is the part that answers, and its algorithm, if the owner of b's key has lent it tokens out of its pool.
func lender(b *before) (s *report.Subject, pool string) {
	if r := b.answering(); r == nil || !r.Granted() || !r.Terms().Traits.Pooled {
		return nil, ""
	}
	return b.pair[b.plan.Answers], b.plan.answering()
}

// allowed is what the Rate that answers has ever allowed, including what remote buckets admitted.
func (b *before) allowed() int64 {
	if b.answering() == nil {
		return 0
	}
	return allowedBy(b.pair[b.plan.Answers])
}

// usedSince is what b allowed since its carryover began, less what callers gave back. It leaves out what
// was unlimited, and what b's own limit has filled in while the carryover was full. refunded is how much of
// what callers gave back counts as used nevertheless, because it went to a remote bucket.
func (b *before) usedSince(refunded int64) int64 {
	c := b.carried()
	if c == nil || b.Stage == nil {
		return 0
	}
	limit := b.Stage.Level(b.now).Limit
	if limit >= rate.Inf {
		return 0
	}
	used := float64(max(b.allowed()-c.allowed+refunded, 0))
	filled := float64(limit) * max(b.now.Sub(c.at), 0).Seconds()
	overflow := max(c.tokensAt(b.now)-c.burst, 0)
	return int64(max(math.Ceil(used-min(filled, overflow)-1e-6), 0))
}

// refundedRemotely is what callers have given back to a remote bucket since the carryover began, of what
// the Rate that answers counts as allowed.
func (b *before) refundedRemotely() int64 {
	if b.answering() == nil || b.carried().chargedTo == "" {
		return 0
	}
	return b.answering().Returned() - b.carried().returned
}

// statedDemand is the demand that the service stated in a unit, for the parts that stay, or else
// in the carryover; Measured if none was.
func (b *before) statedDemand(stay []*report.Subject, unit int) float64 {
	if len(stay) > 0 {
		if wants, ok := stay[0].Part().Common().Stated(); ok {
			return wants
		}
	} else if b.carried() != nil {
		return b.carried().wants[unit]
	}
	return share.Measured
}

// heldSlots is the slots that count what callers of b hold. In a migration, that is the part that
// counts most: the other one may have counted less, and never more than is held. It is
// nil if b limits a rate and the key has not limited slots before.
func (b *before) heldSlots() (most *share.Slots) {
	if b.carried() != nil {
		most = b.carried().slots
	}
	for _, p := range b.Subjects() {
		if s := p.Slots(); s != nil && (most == nil || s.Census().Held > most.Census().Held) {
			most = s
		}
	}
	return most
}

// keepsPart reports whether next has a part of b.
func (b *before) keepsPart(next *Holding) bool {
	return slices.ContainsFunc(b.Subjects(), func(p *report.Subject) bool { return slices.Contains(next.Subjects(), p) })
}
