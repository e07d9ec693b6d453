// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"math"
	"time"

	"github.com/headgate/headgate/limiter/stage"
)

// alone notices that this host's bucket is in debt while another host has tokens.
//
// A bucket that is full does not fill. If messages are late meanwhile, because of
// a pause, a loss or a partition, the bucket is charged later with tokens that it
// never had. A process that starts may be charged twice with what others used, and
// what it uses of its own full bucket is charged to buckets that are empty. While the hosts want more than the limit, the others use all that is
// filled in. So this debt would never be paid back, and the host would get hardly anything.
//
// So the debt ends if it lasts for longer than late messages are paid back, and all
// that one other host sent meanwhile says that it had more. Debts that all hosts
// have stay.
type alone struct {
	since stage.Instant // when the debt began; math.MaxInt64: there is none
	lack  float64       // the least that the other host had more, since then
}

var noDebt = alone{since: math.MaxInt64}

// observe takes in that a host that used tokens has lack tokens more than this host,
// whose bucket is at level. It returns how many tokens to give back.
func (a *alone) observe(now stage.Instant, level, lack float64, p *pauses) float64 {
	switch {
	case level >= 0:
		*a = noDebt
	case a.since == math.MaxInt64:
		*a = alone{since: now, lack: lack}
	default:
		if a.lack = min(a.lack, lack); now.Sub(a.since) > p.most() {
			give := max(min(a.lack, -level), 0)
			*a = noDebt
			return give
		}
	}
	return 0
}

// back is how many tokens a bucket may get back.
type back struct {
	most   float64
	spilt  float64 // of the bucket, counted in most
	starts int64   // of the table, counted in most; each change of the rule lowers it by 1

	highest float64       // the highest rate since paused that most or the bucket has counted; 0: none yet
	paused  stage.Instant // when the pause began before the latest change of the rule
}

// grow counts what the bucket spilt, and each tokens for each process that started since and each
// change of the rule: other hosts may have that much more from then on. No debt is deeper than
// deepest.
func (b *back) grow(spilt float64, starts int64, each, deepest float64) {
	b.add(spilt-b.spilt+each*float64(starts-b.starts), deepest)
	b.spilt, b.starts = spilt, starts
}

// add has the bucket get back n more, but not more than deepest.
func (b *back) add(n, deepest float64) { b.most = min(b.most+n, deepest) }

// raise counts what others may have more than a bucket that filled at own since a pause began, if they filled at rate.
// If the limit changes some times after the pause, the highest rate counts, and it counts once.
func (b *back) raise(now, since stage.Instant, own, rate float64) {
	if b.highest == 0 || b.paused != since {
		b.paused, b.highest = since, own
	}
	if rate > b.highest {
		b.add((rate-b.highest)*now.Sub(since).Seconds(), math.Inf(1))
		b.highest = rate
	}
}

// giveBack puts n tokens into the bucket, or as many as it may get back if those are fewer.
func (e *entry) giveBack(at time.Duration, n float64) {
	if n = min(n, e.back.most); n > 0 {
		e.bucket.Give(at, n)
		e.back.most -= n
		e.notAlone()
	}
}

// notAlone has all hosts that have more begin to count anew.
func (e *entry) notAlone() {
	for i := range e.others {
		e.others[i].alone = noDebt
	}
}
