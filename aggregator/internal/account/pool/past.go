// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"slices"
	"time"
)

// past is which limits and intervals a key had until lately. Rows hold parts of
// the limit, so that a change of it touches none of them; a host's next report
// asks past what its part was worth since its last one.
type past struct {
	limits []ended       // the oldest first; at most maxPast
	slow   time.Duration // until then hosts may report after an earlier, longer interval
}

// ended is a limit that was in force until some time.
type ended struct {
	until time.Duration
	rate  float64 // events/s
}

// maxPast bounds how many limits are remembered. If there were more in the time
// between two reports, the oldest that is remembered stands for those before.
const maxPast = 32

// was notes that rate was the limit until now.
func (p *past) was(now time.Duration, rate float64) {
	if len(p.limits) == maxPast {
		p.limits = slices.Delete(p.limits, 0, 1)
	}
	p.limits = append(p.limits, ended{now, rate})
}

// passed is how many events the limit allowed from last to now, when it is rate
// now.
func (p *past) passed(last, now time.Duration, rate float64) (events float64) {
	for _, e := range p.limits {
		if e.until > last {
			events += e.rate * seconds(e.until-last)
			last = e.until
		}
	}
	return events + rate*seconds(now-last)
}

// slowAt reports whether hosts may still report after an earlier, longer interval.
func (p *past) slowAt(now time.Duration) bool { return p != nil && now < p.slow }

// since is p without what ended before then; nil if nothing is left at now.
func (p *past) since(then, now time.Duration) *past {
	if p == nil {
		return nil
	}
	p.limits = slices.DeleteFunc(p.limits, func(e ended) bool { return e.until < then })
	if len(p.limits) == 0 && !p.slowAt(now) {
		return nil
	}
	return p
}
