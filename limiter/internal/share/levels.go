// SPDX-License-Identifier: Apache-2.0

package share

import (
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// levels are what the grant of a Rate gives, and what the fallback gives. Decisions
// touch only the one in force, the bucket. The other is inactive, and is charged with the
// same usage at each report and at each switch, so that a switch gives no second
// burst. Which one is in force, the Rate says.
type levels struct {
	bucket   bucket.Bucket
	active   Level
	inactive inactive
	extras
}

// Level implements stage.Stage.
func (l *levels) Level(now stage.Instant) stage.Level {
	p := l.bucket.Pace()
	return stage.Level{Limit: p.Limit(), Burst: p.Burst(), Tokens: l.bucket.Tokens(now)}
}

// Open implements stage.Stage. The key knows whether its rule lets everything through.
func (*levels) Open() (open bool, changed []<-chan struct{}) { return false, nil }

// Cap implements stage.Stage: the inactive level is capped with its next charge.
func (l *levels) Cap(now stage.Instant, tokens float64) {
	if l.bucket.Cap(now, tokens); tokens == inf {
		return
	}
	l.update(func(e *extra) {
		next := &ceiling{tokens, now}
		if e.ceiling != nil { // how fast the level fills is not known here
			next.tokens = min(tokens, e.ceiling.tokens)
		}
		e.ceiling = next
	})
}

// Bucket is what decides now. A remote stage counts in it without taking.
func (l *levels) Bucket() *bucket.Bucket { return &l.bucket }

// Active is the level that the bucket has.
func (l *levels) Active() Level { return l.active }

// ChargeInactive charges the inactive level with what the bucket has
// allowed. Each grant does, and so does each report while there is none or an answer is
// missing: the level overflows before a charge that comes late.
func (l *levels) ChargeInactive(now stage.Instant) {
	var c *ceiling
	if e := l.current.Load(); e != nil && e.ceiling != nil { // most have none
		c = l.update(func(e *extra) { e.ceiling = nil }).ceiling
	}
	l.inactive.charge(now, l.bucket.Allowed(), c)
}

// Uncount takes back that n tokens were allowed that the bucket did not give, because a caller gives them back.
// The inactive level has been charged with them, and gets nothing back.
func (l *levels) Uncount(n int64) {
	l.bucket.Uncount(n)
	counter(&l.extras, back).Add(min(n, bucket.MaxCost))
	l.inactive.charged.Add(-min(n, bucket.MaxCost))
}

// Count implements Part.
func (l *levels) Count(now stage.Instant) bucket.Usage { return l.bucket.Count(now) }

// Inherit implements Part. The bucket gave none of those tokens, so the level that is not in
// force is not charged with them either.
func (l *levels) Inherit(u bucket.Usage) {
	l.update(func(e *extra) {
		e.inherited.Allowed += u.Allowed
		e.inherited.Rejected += u.Rejected
	})
	l.inactive.charged.Add(u.Allowed)
	l.bucket.Inherit(u)
}

// Allowed is what the bucket has ever allowed, without what it counts for another Part.
func (l *levels) Allowed() int64 { return l.bucket.Allowed() - l.extra().inherited.Allowed }

// Inherited is what the bucket counts for other Parts.
func (l *levels) Inherited() bucket.Usage { return l.extra().inherited }

// Tokens implements Part.
func (l *levels) Tokens(now stage.Instant) float64 { return l.bucket.Tokens(now) }

// Retire implements Part.
func (l *levels) Retire() { l.bucket.SetLowAlways() }
