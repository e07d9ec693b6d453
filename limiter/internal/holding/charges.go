// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"math"
	"slices"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/stage"
)

// charges is how many tokens a remote bucket is charged with when it takes over.
type charges struct {
	used      int64  // recently, by this host
	chargedTo string // the algorithm of a remote bucket that has been charged, except with uncharged; empty if none has
	uncharged int64
}

// of is the charge of the remote bucket under an algorithm.
func (c charges) of(algorithm string) int64 {
	if algorithm == c.chargedTo {
		return c.uncharged
	}
	return c.used
}

// chargesFor are the charges of the remote buckets that take over from b under next.
func (b *before) chargesFor(next *Plan) charges {
	recent, used, rule := int64(0), int64(0), next.Rule
	if b.pair[0] != nil && b.Stage != nil {
		recent = b.recentUse(b.Stage.Level(b.now))
		used = lacking(recent, b.plan.Rule.Burst, rule, b.hosts)
	}
	level, c := b.carriedLevel(), b.carried()
	switch {
	case c == nil:
		return charges{used: used}
	case c.chargedTo == "":
		return charges{used: max(used, lacking(level.Missing(), c.ruleBurst, rule, b.hosts))}
	}
	refunded, all := b.refundedRemotely(), level // all is as that bucket has been charged, for all hosts
	if b.answering() != nil {
		all.Tokens = min(c.tokensAt(b.now), c.burst) + float64(refunded) // level has paid for what it does not know
	}
	uncharged := c.unchargedAt(b.now, b.hosts)
	all.Tokens += float64(uncharged)
	uncharged += b.usedSince(refunded)
	even, over := evenPart(all, b.hosts), max(all.Tokens-all.Burst, 0) // over: what that bucket has beyond the carryover's burst
	used = max(used, lacking(even+min(uncharged, level.Missing()), c.ruleBurst, rule, b.hosts))
	chargedTo, _ := c.poolAfter(b.plan, next)
	if all.Remote {
		over /= float64(b.hosts)
	}
	noRoom := max(int64(over+(c.ruleBurst-rule.Burst)/float64(b.hosts))-even, 0) // of what that bucket has, under rule
	recent -= even + max(noRoom-int64(math.Ceil(over-1e-6)), 0)
	most := max(level.Missing(), lacking(level.Missing(), c.ruleBurst, rule, b.hosts))
	return charges{used, chargedTo, max(recent, min(uncharged-noRoom, most), 0)}
}

// lacking is what a full bucket under rule is charged with if one of hosts used so many tokens of a whole
// burst. The key keeps the tokens that it had, as it does where a burst changes and no bucket does: if the
// burst is smaller, what it has no room for was used first, and if it is larger, the difference is still to fill in.
func lacking(used int64, burst float64, rule *dynamicconfig.Rule, hosts int) int64 {
	if used <= 0 {
		return 0
	}
	return max(used-int64((burst-rule.Burst)/float64(hosts)), 0)
}

// recentUse is how many tokens this host has used and its parts, at level, have not filled in again.
//
//   - Of a remote bucket, it is an even part of what all hosts used.
//   - Without a grant, it is what the bucket or its inactive level lacks.
//   - The bucket of a grant does not show it: a grant may lend fewer tokens than the bucket holds, and a small
//     bucket may be full. So the host has used at least what the inactive level lacks because of its events,
//     or its even part of what the owner's pool lacks, except for the tokens that the host still has.
//   - It is never more than all parts have allowed or taken over: a bucket may lack tokens that it never had.
func (b *before) recentUse(level stage.Level) int64 {
	used, r := evenPart(level, b.hosts), b.answering()
	if level.Remote || r == nil {
		return used
	}
	allowed := int64(0)
	for _, p := range b.Subjects() {
		own := p.Rate
		allowed += own.Bucket().Allowed() + own.UsedBefore() + p.Part().Admitted()
	}
	switch inactive := r.Inactive(b.now).Missing(); {
	case !r.Granted():
		return min(max(used, inactive), allowed)
	case level.Limit < rate.Inf:
		paid := int64(0)
		if of := remote.Of(b.pair[b.plan.Answers].Part()); of != nil {
			paid = evenPart(of.Elsewhere(b.now), b.hosts) - int64(max(level.Tokens, 0))
		}
		return max(min(used, allowed), min(max(r.Spent(b.now), paid), allowed))
	default:
		return inactive
	}
}

// evenPart is what is missing at level; of a remote bucket, one host's even part of that.
func evenPart(level stage.Level, hosts int) int64 {
	if level.Remote {
		return (level.Missing() + int64(hosts) - 1) / int64(hosts)
	}
	return level.Missing()
}

// measuredRemote is the algorithm of a remote bucket that a migration measures. That bucket has been
// charged with all that the part that answers allowed, except for the tokens that it refused; the algorithm is
// empty if there is none.
func (b *before) measuredRemote() (algorithm string, refused int64) {
	m, i := b.Migration(), b.plan.measured()
	if m == nil || m.stages == nil || i < 0 || !stageOf(b.pair[i]).Level(b.now).Remote {
		return "", 0
	}
	counts := m.counts()
	return b.pair[i].Algorithm(), [...]int64{counts.OnlyNew, counts.OnlyOld}[i] + counts.Skipped
}

// notAsked reports whether s is a part of b that does not answer, and that no migration asks, or
// charges with what it missed. A migration charges only parts without a grant.
func (b *before) notAsked(s *report.Subject) bool {
	i := slices.Index(b.Subjects(), s)
	switch {
	case i < 0 || i == b.plan.Answers || b.plan.Answers < 0 && b.issuer() == s:
		return false
	case b.Migration() == nil:
		return true
	default:
		return b.plan.measured() != i && !stageOf(s).Level(b.now).Remote
	}
}

// mostUncharged bounds what the owner of s, which is not asked, has not been charged with: what the Rate that
// answers has ever allowed, if s has a grant. The owner knows what was used before it gave the grant.
func (b *before) mostUncharged(s *report.Subject) int64 {
	if b.answering() == nil || stageOf(s).Level(b.now).Remote {
		return math.MaxInt64
	}
	return b.allowed()
}
