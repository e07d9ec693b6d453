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
	now     stage.Instant
	hosts   int
	account account
}

// level is how many tokens the Stage of b has left. While nothing limits it, the account says.
func (b *before) level() stage.Level {
	if level, limited := b.partsLevel(); limited {
		return level
	}
	return b.account.level()
}

// partsLevel is level without the account. While the Stage is unlimited, it is the
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
// remote, that is this host's even part of what the remote bucket has for all hosts. Until the remote bucket answers, it
// is no more than the host had before it asked. While it does not answer any more, the host's own level counts.
// One host has all that the key has.
func (b *before) tokensFor(local bool) float64 {
	level := b.level()
	switch {
	case !level.Remote && (local || b.hosts > 1):
		return level.Tokens + b.notLent(level, local)
	case !local || b.hosts == 1:
		return level.Tokens
	}
	if _, inFallback := b.Answering().InFallback(); inFallback {
		return level.Tokens
	}
	even := (level.Tokens + level.Above) / float64(b.hosts)
	if level.Above > 0 {
		return min(max(level.Tokens, b.account.level().Tokens), even)
	}
	return even
}

// notLent is what the owner of b's key has not lent, if the host asks it for what its grant does not cover: all of it, or this
// host's even part. That is no more than what the key, or this host's part of it, has beside the host's own tokens at level.
func (b *before) notLent(level stage.Level, local bool) float64 {
	if b.answering() == nil {
		return 0
	}
	left, above := remote.NotLent(b.now, b.Answering())
	hosts, own, lacks := float64(b.hosts), max(level.Tokens, 0), b.account.tokens
	if local {
		return max(min((left+above)/hosts, b.plan.Rule.Burst/hosts-lacks-own), 0)
	}
	return max(min(left+above, b.plan.Rule.Burst-lacks*hosts-own), 0)
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
