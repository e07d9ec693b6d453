// SPDX-License-Identifier: Apache-2.0

package holding

import (
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/stage"
)

// settleMeasured sets what the bucket that a migration measures lacks: what the key used, less what the bucket refused, and
// what it gave although the part that answers refused. What the owner of a grant was not told yet does not count.
func (b *before) settleMeasured(level stage.Level, p *passed) {
	measured, differed := b.measured()
	if measured == nil {
		return
	}
	a := &b.account
	if !stageOf(measured).Level(b.now).Remote {
		if lends(measured) {
			of := a.bucket(measured.Name())
			of.lack, of.limit = a.lack, a.rule.Limit
			of.lack.fill(float64(differed.refused + measured.Unreported(b.now) + measured.Uncharged()))
		}
		return
	}
	of := a.bucket(measured.Name())
	missed, back, gave := float64(differed.refused-of.differed.refused), float64(of.latest.back), float64(differed.gave-of.differed.gave)
	if level.Remote { // both buckets show what hosts use
		missed, back = 0, 0
	}
	if of.differed = differed; heard(b) {
		deepest := max(of.lacked, a.rule.Burst+a.rule.MostDebt()) // a smaller burst makes no debt less
		most := min(p.most(of.lacked-p.filled), deepest)
		least := min(of.lacked+p.used-missed, deepest) - back - p.filled // what came back may have come last
		if !p.known {
			least = min(a.tokens-missed-back, least)
		}
		its := stageOf(measured).Level(b.now)
		shows := its.Burst - its.Tokens - its.Above // because of all hosts
		if a.hosts > 1 && its.Above == 0 {
			least, most = 0, shows/a.hosts // this host may have used more or less than its part
		}
		most = max(most, min(most+gave, shows/a.hosts))
		of.tokens, of.burst, of.limit = min(most, max(least, shows, 0)), a.burst, a.rule.Limit
		of.learn(remote.Of(measured.Part()), a.hosts, a.tokens+a.aboveEven)
	}
	a.shareHeard(measured)
}

// measuredRemote is the part of a remote bucket that a migration measures; nil if there is none.
func (b *before) measuredRemote() *report.Subject {
	if s, _ := b.measured(); s != nil && stageOf(s).Level(b.now).Remote {
		return s
	}
	return nil
}

// measured is the part that a migration measures; nil if there is none. Its bucket was charged with all that the part that
// answers allowed, except for the tokens that it refused, and with what it gave although that part refused.
func (b *before) measured() (s *report.Subject, unlike differed) {
	m := b.Migration()
	if m == nil || m.stages == nil {
		return nil, unlike
	}
	i := b.plan.measured()
	if i < 0 {
		return nil, unlike
	}
	counts := m.counts()
	only := [...]int64{counts.OnlyOld, counts.OnlyNew}
	return b.pair[i], differed{only[1-i] + counts.Skipped, only[i]}
}

// forgetDiffered begins anew: the counts of the next migration begin with 0.
func (a *account) forgetDiffered() {
	for i := range a.buckets {
		a.buckets[i].differed = differed{}
	}
}
