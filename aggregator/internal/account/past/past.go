// SPDX-License-Identifier: Apache-2.0

// Package past keeps which limits and intervals a key had until recently. Accounts have parts
// of the limit in their rows, so that a change of the limit touches no row; a host's next
// report asks a Past what its part was worth since its last one. The package knows time and
// limits, and nothing of hosts.
package past

import (
	"math"
	"slices"
	"time"
)

// Past is that of one key. A nil Past is that of a key of which nothing has changed recently. Use New for another one.
type Past struct {
	limits []ended       // the oldest first; at most most
	slow   time.Duration // until then hosts may report after an earlier, longer interval
	left   time.Duration // when another owner got the key
}

// ended is a limit that was in force until some time.
type ended struct {
	until time.Duration
	rate  float64 // events/s
}

// New returns a Past with nothing in it. Times may be negative.
func New() *Past { return &Past{slow: math.MinInt64, left: math.MinInt64} }

// most bounds how many limits are remembered. If there were more in the time
// between two reports, the oldest that is remembered stands for those before.
const most = 32

// Was notes that rate was the limit until now.
func (p *Past) Was(now time.Duration, rate float64) {
	if len(p.limits) == most {
		p.limits = slices.Delete(p.limits, 0, 1)
	}
	p.limits = append(p.limits, ended{now, rate})
}

// Passed is how many events the limit allowed from last to now, when it is rate
// now.
func (p *Past) Passed(last, now time.Duration, rate float64) (events float64) {
	if p != nil {
		for _, e := range p.limits {
			if e.until > last {
				events += e.rate * seconds(e.until-last)
				last = e.until
			}
		}
	}
	return events + rate*seconds(now-last)
}

// SlowUntil notes that hosts may report after an earlier, longer interval until then.
func (p *Past) SlowUntil(then time.Duration) { p.slow = max(p.slow, then) }

// SlowAt reports whether hosts may still do so.
func (p *Past) SlowAt(now time.Duration) bool { return p != nil && now < p.slow }

// Leave notes that another owner has the key from now on.
func (p *Past) Leave(now time.Duration) { p.left = now }

// LeftSince reports whether another owner has had the key since then.
func (p *Past) LeftSince(then time.Duration) bool { return p != nil && p.left >= then }

// Since is p without what ended before then; nil if nothing is left at now.
func (p *Past) Since(then, now time.Duration) *Past {
	if p == nil {
		return nil
	}
	p.limits = slices.DeleteFunc(p.limits, func(e ended) bool { return e.until < then })
	if len(p.limits) == 0 && !p.SlowAt(now) && !p.LeftSince(then) {
		return nil
	}
	return p
}

// seconds is d in seconds, without the divisions of its method.
func seconds(d time.Duration) float64 { return float64(d) * 1e-9 }
