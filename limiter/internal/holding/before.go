// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"math"
	"slices"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// before is a Holding that another one follows, at an instant: how much was used under
// it, so that the next one gives no second burst.
type before struct {
	*Holding
	now   stage.Instant
	hosts int
}

// left returns the remains that the next Holding begins with: b's own remains, or its
// level if more is missing there. With parts, the next Holding needs to know how much was
// used, because a grant lends fewer tokens than its bucket holds.
func (b *before) left(parts bool) remains {
	left := nothing
	if b.remains != nil {
		left = *b.remains
	}
	left.slots = b.holds()
	if !math.IsInf(left.tokens, 1) {
		left.tokens, left.at = b.earlier().Tokens, b.now
		left.since += b.since(b.back())
	}
	if left.gave = b.gives(); left.gave != nil {
		left.count(left.gave)
	}
	if first := b.pair[0]; first == nil || first.Slots() != nil {
		return left
	}
	level, tells := b.own()
	if !tells {
		return left
	}
	if !level.Remote {
		lately := b.lately(b.Stage.Level(b.now))
		if r := b.answering(); r != nil && lately > level.Missing() { // more than a grant's bucket can show
			had := level.Tokens
			level = r.Inactive(b.now)
			if level.Tokens = level.Burst - float64(lately); had < 0 { // a debt, which the inactive level does not have
				level.Tokens = min(level.Tokens, had)
			}
		} else if parts {
			level.Tokens = max(level.Tokens, level.Burst-float64(lately))
		}
	}
	more := math.IsInf(left.tokens, 1) || level.Missing() > left.missing() || level.Missing() == left.missing() && left.remote == ""
	if level.Limit < rate.Inf && (more || level.Remote) {
		left.tokens, left.burst, left.limit, left.at = level.Tokens, level.Burst, level.Limit, b.now
		left.ruled = b.plan.Rule.Limit
		left.remote, left.here, left.since = "", false, 0
		if level.Remote {
			left.remote = b.plan.answering()
		}
	}
	if of, refused := b.measures(); of != "" {
		if left.remote == "" {
			left.remote, left.here = of, true
		}
		if left.remote == of {
			left.since = refused
		}
	}
	return left
}

// measures returns the algorithm of a bucket elsewhere that a migration measures, and that
// was charged with all that the part that answers allowed, but for refused tokens; empty if
// there is none.
func (b *before) measures() (algorithm string, refused int64) {
	m, i := b.migration, b.plan.measured()
	if m == nil || m.stages == nil || i < 0 || !stageOf(b.pair[i]).Level(b.now).Remote {
		return "", 0
	}
	counts := m.counts()
	return b.pair[i].Algorithm(), [...]int64{counts.OnlyNew, counts.OnlyOld}[i] + counts.Skipped
}

// remainder returns the part of kept, which b left, that next must remember; nil if
// there is none.
func (b *before) remainder(kept remains, next *Holding) *remains {
	first := b.pair[0]
	if first != nil && next.pair[0] != first {
		if wants, stated := first.Part().Common().Stated(); stated {
			kept.wants[unit(first)] = wants
		}
	}
	switch {
	case next.Slots != nil:
		kept.slots = nil
	case next.pair[0] != nil:
		kept.follow(next.plan.Rule.Limit)
		kept.remote = poolAfter(kept.remote, b.plan, next.plan)
		// A bucket elsewhere knows what was used, or has been charged with it. A bucket
		// here shows it, until the grant changes, but not that a bucket elsewhere knows it.
		shows := kept.remote == "" && (next.answering() == nil || !next.answering().Granted())
		if level := next.Stage.Level(b.now); kept.missing() == 0 || level.Remote || shows && level.Missing() >= kept.missing() {
			kept.tokens = math.Inf(1)
		}
		if next.answering() != nil {
			kept.gave = nil
			kept.count(next.pair[next.plan.Answers])
		}
	}
	if next.pair[0] != nil {
		kept.wants[unit(next.pair[0])] = share.Measured
	}
	if kept.slots == nil && math.IsInf(kept.tokens, 1) && !kept.stated() {
		return nil
	}
	return &kept
}

// earlier is the level that b's remains have after what b allowed since; its
// tokens are infinite if there is none. What b allowed makes no debt.
func (b *before) earlier() stage.Level {
	left := b.remains
	if left == nil || math.IsInf(left.tokens, 1) {
		return stage.Level{Limit: rate.Inf, Tokens: math.Inf(1)}
	}
	filled := min(left.tokensAt(b.now), left.burst)
	tokens := max(filled-float64(b.since(0)), min(filled, 0))
	if b.answering() == nil && left.gave != nil {
		tokens = b.settled(filled)
	}
	return stage.Level{Limit: left.limit, Burst: left.burst, Tokens: tokens, Remote: left.remote != "" && !left.here}
}

// settled is how many of the tokens that b's remains have filled in are left with those
// that callers gave back while no Rate answered. The part that answered before has them,
// so there are no more tokens than it has.
func (b *before) settled(filled float64) float64 {
	left := b.remains
	level := stageOf(left.gave).Level(b.now)
	if level.Limit >= rate.Inf {
		return filled
	}
	return max(min(filled+float64(left.counted-allowedBy(left.gave)), left.burst, level.Tokens), filled)
}

// gives is the part that gave the tokens that callers may give back: the one that answers,
// or else the one that answered before; nil if none did.
func (b *before) gives() *report.Subject {
	switch {
	case b.answering() != nil:
		return b.pair[b.plan.Answers]
	case b.remains != nil:
		return b.remains.gave
	default:
		return nil
	}
}

// allowed is what the Rate that answers has ever allowed, here and elsewhere.
func (b *before) allowed() int64 {
	if b.answering() == nil {
		return 0
	}
	return allowedBy(b.pair[b.plan.Answers])
}

// since is what b allowed, and callers did not give back, since its remains were as they are, as far
// as its own limit has not filled it in again while the remains were full. What nothing limited
// does not count. back is of what callers gave back, and counts as used still: a bucket elsewhere
// got as much.
func (b *before) since(back int64) int64 {
	if b.remains == nil || b.Stage == nil {
		return 0
	}
	limit := b.Stage.Level(b.now).Limit
	if limit >= rate.Inf {
		return 0
	}
	used := float64(max(b.allowed()-b.remains.counted+back, 0))
	filled := float64(limit) * max(b.now.Sub(b.remains.at), 0).Seconds()
	full := max(b.remains.tokensAt(b.now)-b.remains.burst, 0)
	return int64(max(math.Ceil(used-min(filled, full)-1e-6), 0))
}

// back is what callers have given back since to a bucket elsewhere, of what the Rate that answers counts.
func (b *before) back() int64 {
	if b.answering() == nil || b.remains.remote == "" {
		return 0
	}
	return b.answering().Returned() - b.remains.returned
}

// level is what b, which has a Stage, says about the tokens that are left, or else what
// its remains say.
func (b *before) level() stage.Level {
	level, tells := b.own()
	if earlier := b.earlier(); !tells && earlier.Limit < rate.Inf {
		return earlier
	}
	return level
}

// tokensFor is how many tokens what follows b may have. If that is here, it has this host's even part of what a bucket
// elsewhere has for all of them, and no more than the host had before it asked that bucket. While the bucket does not
// answer, the level is the host's own.
func (b *before) tokensFor(here bool) float64 {
	level := b.level()
	if !here || !level.Remote {
		return level.Tokens
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

// own is level without the remains: what is unlimited says nothing, so there it is the
// inactive level. tells is false if nothing is limited.
func (b *before) own() (level stage.Level, tells bool) {
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

// bill is how many tokens a bucket elsewhere is charged with that takes over.
type bill struct {
	used  int64  // by this host lately
	knows string // the algorithm of a bucket that knows of them, but for since; empty if none does
	since int64
}

// of is the charge of the bucket under an algorithm.
func (b bill) of(algorithm string) int64 {
	if algorithm == b.knows {
		return b.since
	}
	return b.used
}

// due is the bill of what takes over from b under next.
func (b *before) due(next *Plan) bill {
	lately, used, rule := int64(0), int64(0), next.Rule
	if b.pair[0] != nil && b.Stage != nil {
		lately = b.lately(b.Stage.Level(b.now))
		used = beyond(lately, b.plan.Rule.Burst, rule, b.hosts)
	}
	earlier, left := b.earlier(), b.remains
	switch {
	case left == nil:
		return bill{used: used}
	case left.remote == "":
		return bill{used: max(used, beyond(earlier.Missing(), earlier.Burst, rule, 1))}
	}
	since, all := left.since+b.since(b.back()), earlier // all hosts' use, as that bucket knows it
	if b.answering() != nil {
		all.Tokens = min(left.tokensAt(b.now), left.burst) - float64(b.since(0)) // earlier has no debt
	}
	all.Tokens += float64(since)
	since = min(since, earlier.Missing())
	even := evenly(all, b.hosts)
	used = max(used, beyond(even, all.Burst, rule, b.hosts)+since)
	return bill{used, poolAfter(left.remote, b.plan, next), max(lately-even, since)}
}

// beyond is how many of used tokens of a burst a bucket under rule lacks, if one of hosts used them. Those for which
// a smaller burst has no room were used first.
func beyond(used int64, burst float64, rule *dynamicconfig.Rule, hosts int) int64 {
	if burst <= rule.Burst {
		return used
	}
	return max(used-int64((burst-rule.Burst)/float64(hosts)), 0)
}

// lately is what this host has used of late, as far as the parts of b, whose level
// it is, would not have filled in again. Of a bucket elsewhere it is an even part of
// what all hosts used. A grant's bucket does not tell what was used: the grant may lend
// fewer tokens than the bucket holds, or the bucket may be small and full. So a host with
// a grant has used at least what its fallback lacks by use. A part that followed a grant may
// lack tokens that it never had. So no host has used more than all parts ever allowed or took
// over. What the key's owner paid itself, a grant does not show: the host has used
// an even part of what the owner lacks, but for the tokens that it has still.
func (b *before) lately(level stage.Level) int64 {
	used, r := evenly(level, b.hosts), b.answering()
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
			paid = evenly(of.Elsewhere(b.now), b.hosts) - int64(max(level.Tokens, 0))
		}
		return max(min(used, max(inactive, allowed)), min(max(r.Spent(b.now), paid), allowed))
	default:
		return inactive
	}
}

// evenly is what is missing at level; of a bucket elsewhere, one host's even part.
func evenly(level stage.Level, hosts int) int64 {
	if level.Remote {
		return (level.Missing() + int64(hosts) - 1) / int64(hosts)
	}
	return level.Missing()
}

// stated is the demand that was stated in a unit, for kept or for what remains of
// earlier parts; Measured if none was.
func (b *before) stated(kept []*report.Subject, unit int) float64 {
	if len(kept) > 0 {
		if wants, ok := kept[0].Part().Common().Stated(); ok {
			return wants
		}
	} else if left := b.remains; left != nil {
		return left.wants[unit]
	}
	return share.Measured
}

// holds is the slots that count what callers of b hold: of a migration, the part that
// counts most, because the other one may have counted less and never more than is held.
// nil if b limits a rate and has not limited slots before.
func (b *before) holds() (most *share.Slots) {
	if b.remains != nil {
		most = b.remains.slots
	}
	for _, p := range b.Subjects() {
		if s := p.Slots(); s != nil && (most == nil || s.Census().Held > most.Census().Held) {
			most = s
		}
	}
	return most
}

// keeps reports whether next has a part of b.
func (b *before) keeps(next *Holding) bool {
	return slices.ContainsFunc(b.Subjects(), func(p *report.Subject) bool { return slices.Contains(next.Subjects(), p) })
}

// unasked reports whether s is a part of b that does not answer, and that no migration asks, or
// charges with what it missed: one charges only what has no grant.
func (b *before) unasked(s *report.Subject) bool {
	i := slices.Index(b.Subjects(), s)
	switch {
	case i < 0 || i == b.plan.Answers || b.plan.Answers < 0 && b.gives() == s:
		return false
	case b.migration == nil:
		return true
	default:
		return b.plan.measured() != i && !stageOf(s).Level(b.now).Remote
	}
}

// unheard is the most that the owner of s, which is unasked, may not know of: what the Rate that
// answers has ever allowed, if s has a grant. Its owner knows what was used before s got that.
func (b *before) unheard(s *report.Subject) int64 {
	if b.answering() == nil || stageOf(s).Level(b.now).Remote {
		return math.MaxInt64
	}
	return b.allowed()
}
