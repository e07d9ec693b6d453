// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"slices"
	"time"

	"github.com/headgate/headgate/internal/sim/traffic"
)

// overshoot finds the largest excess of what is admitted over what one bucket
// could give, in any window of 10 s.
type overshoot struct {
	limits []capacity     // in order of time, at least one
	marks  []traffic.Time // in order of time

	window []admission // the last 10 s
	head   int         // where they begin
	sum    int64       // cost in the window

	worst      float64 // percent, of all windows
	worstLater float64 // percent, of windows that have no mark in them or in the 10 s before
}

// capacity is a limit from a time on.
type capacity struct {
	at           traffic.Time
	limit, burst float64
}

type admission struct {
	at   traffic.Time
	cost int64
}

const overWindow = 10 * time.Second

// admit takes in what was admitted at now, which never goes back.
func (o *overshoot) admit(now traffic.Time, cost int64) {
	for o.head < len(o.window) && o.window[o.head].at < now-overWindow {
		first := o.window[o.head]
		o.measure(first.at, first.at+overWindow)
		o.sum -= first.cost
		o.head++
	}
	if o.head > 4096 && o.head > len(o.window)/2 {
		o.window = o.window[:copy(o.window, o.window[o.head:])]
		o.head = 0
	}
	o.window = append(o.window, admission{now, cost})
	o.sum += cost
	o.measure(now-overWindow, now)
}

// measure compares the sum with what one bucket could give from one time to
// another.
func (o *overshoot) measure(from, to traffic.Time) {
	whole, burst := o.capacity(from, to)
	excess := float64(o.sum) - whole - burst
	if !(excess > o.worst/100*whole) && !(excess > o.worstLater/100*whole) {
		return
	}
	percent := 100 * excess / max(whole, 1)
	o.worst = max(o.worst, percent)
	after, _ := slices.BinarySearch(o.marks, to+1) // the first mark that is later
	if after == 0 || o.marks[after-1] <= from-overWindow {
		o.worstLater = max(o.worstLater, percent)
	}
}

// capacity is what a limit lets through from one time to another, and the
// largest burst meanwhile. The first limit counts for all time before it.
func (o *overshoot) capacity(from, to traffic.Time) (whole, burst float64) {
	if len(o.limits) == 1 {
		return o.limits[0].limit * (to - from).Seconds(), o.limits[0].burst
	}
	for i, c := range o.limits {
		begin, end := c.at, to
		if i == 0 {
			begin = from
		}
		if i+1 < len(o.limits) {
			end = min(to, o.limits[i+1].at)
		}
		if begin = max(begin, from); begin <= end {
			whole += c.limit * (end - begin).Seconds()
			burst = max(burst, c.burst)
		}
	}
	return whole, burst
}

// limitAt is the limit in force just before a time.
func (o *overshoot) limitAt(at traffic.Time) float64 {
	limit := o.limits[0].limit
	for _, c := range o.limits {
		if c.at < at {
			limit = c.limit
		}
	}
	return limit
}
