// SPDX-License-Identifier: Apache-2.0

package limiter

import "math"

// observed is how many slots a host would use if it could: those that are held
// and waited for, of which a peak counts for some seconds after it, and those
// that were refused. It reads no clock, because that would cost as much as all
// else: its mean is what those who arrive see, which of arrivals by chance is
// what there is over time, and of bursts is what they need. The zero observed
// knows of nothing.
type observed struct {
	level int64 // held and waited for, now

	// Since the last look:
	peak     int64
	arrivals int64   // calls
	met      float64 // sum of the levels that they met
	entered  int64   // slots that were taken, or waited for
	refused  int64   // slots that were not
	need     int64   // the most that was refused at once

	average float64 // moving average of the means
	recent  float64 // peaks, which fade to average
}

// enter takes in that n slots are taken or waited for, from now on.
func (o *observed) enter(n int64) {
	o.arrivals++
	o.met += float64(o.level)
	o.entered += n
	o.level += n
	o.peak = max(o.peak, o.level)
}

// leave takes in that they are no more.
func (o *observed) leave(n int64) { o.level -= n }

// refuse takes in that n slots were refused.
func (o *observed) refuse(n int64) {
	o.arrivals++
	o.met += float64(o.level)
	o.refused = min(o.refused+n, maxCost)
	o.need = max(o.need, n)
}

// wants is the demand in slots, a whole number, after seconds since the last
// call.
//
// Had it not been refused, what was would have been held as long as what was
// not. So there would be more in proportion, but at most as much as there was
// otherwise: those who try again and again are counted again and again.
func (o *observed) wants(seconds float64) float64 {
	mean := (o.met + float64(o.level)) / float64(o.arrivals+1)
	peak, refused := float64(max(o.peak, o.level)), float64(o.refused)
	more := max(min(refused, refused*mean/float64(max(o.entered, 1)), peak), float64(o.need))
	kept := math.Exp(-max(seconds, 0) / memory)
	o.average = mean + (o.average-mean)*kept
	o.recent = max(peak+more, o.average+max(o.recent-o.average, 0)*kept)

	o.peak, o.arrivals, o.met, o.entered, o.refused, o.need = o.level, 0, 0, 0, 0, 0
	return math.Round(o.recent)
}
