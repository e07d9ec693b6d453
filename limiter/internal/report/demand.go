// SPDX-License-Identifier: Apache-2.0

package report

import "math"

// demand estimates how many events/s a host wants of a key. The estimate must follow
// a burst quickly, because the burst needs its tokens now. It must ignore random
// variation, because each change is reported. So it changes only if chance does not
// explain an observation. Times are in seconds. The zero demand is none.
type demand struct {
	reported float64 // as last reported, events/s
	fast     float64 // moving average over ticks, events/s
	quiet    float64 // since the last tick with an event
	over     float64 // how long reported was measured, at most memory
	cost     float64 // of the largest events lately; chance deals in events
}

const (
	// memory is how long what was reported counts as much as what is seen.
	memory = 3.0

	// window is about what fast averages over.
	window = 0.5

	// moment is the least time that a rate is made of.
	moment = 0.05
)

// tick takes in n events in dt, and reports whether demand has changed since it
// was reported: by a fifth at least, and by more than chance explains.
func (d *demand) tick(n, dt float64) (changed bool) {
	if d.quiet += dt; n > 0 {
		d.quiet = 0
	}
	switch latest := n / dt; {
	case d.silent():
		d.fast = 0
	case d.jump(n, d.fast*dt):
		d.fast = latest // the average before says nothing any more
	default:
		d.fast = (d.fast + latest) / 2
	}
	return d.silent() || d.changed(d.fast)
}

// estimate is the demand after n events in the dt since the last tick, and
// total in the period since the last report.
func (d *demand) estimate(n, dt, total, period float64) float64 {
	if d.jump(n, d.fast*dt) {
		d.over = max(dt, moment)
		return n / d.over
	}
	if latest := (d.fast*window + n) / (window + dt); d.silent() || d.changed(latest) {
		d.over = window
		return latest
	}
	period = max(period, 2*moment)
	mean := (d.reported*d.over + total) / (d.over + period)
	d.over = min(d.over+period, memory)
	return mean
}

// latest is the demand after n events in the dt since the last tick.
func (d *demand) latest(n, dt float64) float64 {
	if d.jump(n, d.fast*dt) {
		return n / max(dt, moment)
	}
	return (d.fast*window + n) / (window + dt)
}

// silent reports whether there was no event for so long that chance allows it
// one time in 400.
func (d *demand) silent() bool { return d.reported*d.quiet > 6*d.unit() }

// unit is the cost of an event, at least 1.
func (d *demand) unit() float64 {
	if d.cost > 1 {
		return d.cost
	}
	return 1
}

// changed reports whether rate is another than was reported.
func (d *demand) changed(rate float64) bool {
	difference, larger := math.Abs(rate-d.reported), max(rate, d.reported)
	events := window / d.unit()
	sigmas := 4.0
	if d.over < window { // it was estimated in haste, and is likely to be wrong
		sigmas = 2
	}
	return difference > larger/5 && difference*events > 1.5+sigmas*math.Sqrt(larger*events)
}

// jump reports whether chance does not explain a cost of n where mean is expected.
func (d *demand) jump(n, mean float64) bool {
	if d.cost > 1 {
		n, mean = n/d.cost, mean/d.cost
	}
	return n > mean+4*math.Sqrt(mean)+3 || n < mean-3*math.Sqrt(mean)
}

// catchUp is how many events/s would serve within window the callers that wait
// for so many tokens. They were counted when they came.
func catchUp(tokens float64) float64 {
	if tokens >= 0 {
		return 0
	}
	return -tokens / window
}
