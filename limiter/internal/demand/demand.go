// SPDX-License-Identifier: Apache-2.0

package demand

import "math"

// Estimate is how many events/s a host wants of a key. It must follow a burst
// quickly, because the burst needs its tokens now. It must ignore random variation,
// because each change is reported. So it changes only if chance does not explain an
// observation. Times are in seconds. The zero Estimate is of no demand.
type Estimate struct {
	reported float64 // as last reported, events/s
	fast     float64 // moving average over ticks, events/s
	quiet    float32 // since the last tick with an event
	over     float32 // how long reported was measured, at most memory
	Cost     float64 // of the largest recent events; chance is a matter of events. Report sets it

	// Where events come in clumps, chance deals in clumps.
	clump   float32 // how much comes at once, as false alarms have shown
	suspect float32 // the same, if the last report was a false alarm; 0: it was none
}

const (
	// memory is how long what was reported counts as much as what is seen.
	memory = 3.0

	// window is about what fast averages over.
	window = 0.5

	// together is the time within which events come at once.
	together = 0.001

	// moment is the least time that a rate is made of.
	moment = 0.05

	// alarmed is how soon a report of more demand turns out to be a false alarm.
	alarmed = 1.0

	// smallest and largest are how much comes at once in a clump, in units: less
	// is chance, and more a short burst, which is wanted at once. Who takes a burst
	// for a clump sees its end late, and keeps what others need meanwhile.
	smallest, largest = 4, 16

	// clumpMemory is how long what was learned about clumps counts, about.
	clumpMemory = 30.0
)

// Reported is the demand that was reported last, in events/s.
func (d *Estimate) Reported() float64 { return d.reported }

// Recent is the demand that the latest ticks saw, in events/s.
func (d *Estimate) Recent() float64 { return d.fast }

// Quiet is how long there was no event, as far as ticks go.
func (d *Estimate) Quiet() float64 { return float64(d.quiet) }

// Fade halves the demand that was reported.
func (d *Estimate) Fade() { d.reported /= 2 }

// Resume begins ticks again after a pause, in which the demand is taken for what was
// reported.
func (d *Estimate) Resume() { d.quiet, d.fast = 0, d.reported }

// Tick takes in n events in dt, and reports whether demand has changed since it
// was reported: by a fifth at least, and by more than chance explains.
func (d *Estimate) Tick(n, dt float64) (changed bool) {
	if d.quiet += float32(dt); n > 0 {
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

// Report returns the demand to report after n events in the dt since the last tick,
// and total in the period since the last report, and whether it has changed. The
// largest event cost so much.
func (d *Estimate) Report(n, dt, total, period, cost float64) (wants float64, changed bool) {
	d.Cost = cost
	wants = d.estimate(n, dt, total, period)
	changed = d.changed(wants)
	d.reported = wants
	return wants, changed
}

func (d *Estimate) estimate(n, dt, total, period float64) float64 {
	mean, before := d.fast*dt, d.reported
	jumps := d.jump(n, mean)
	wants := d.measure(jumps, n, dt, total, period)
	d.learn(before, wants, period)
	if off := n - mean; jumps && off > 0 && dt <= moment { // so much at once may be a clump
		d.suspect = float32(min(off*off/(4*mean), n))
	}
	return wants
}

// learn looks whether the last report was a false alarm: if the demand has halved
// since, its events came in a clump.
func (d *Estimate) learn(before, wants, period float64) {
	d.clump -= d.clump * float32(min(period/clumpMemory, 1))
	if unit := float32(d.Unit()); period <= alarmed && wants < before/2 && d.suspect >= smallest*unit && d.suspect <= largest*unit {
		d.clump = max(d.clump, d.suspect)
	}
	d.suspect = 0
}

// measure is the estimate. A jump is what the events since the last tick say.
func (d *Estimate) measure(jumps bool, n, dt, total, period float64) float64 {
	if jumps {
		seen := max(dt, moment)
		d.over = float32(seen)
		return n / seen
	}
	if latest := (d.fast*window + n) / (window + dt); d.silent() || d.changed(latest) {
		d.over = window
		return latest
	}
	period = max(period, 2*moment)
	over := float64(d.over)
	mean := (d.reported*over + total) / (over + period)
	d.over = float32(min(over+period, memory))
	return mean
}

// Latest is the demand after n events in the dt since the last tick. Events that come at once
// say nothing of how soon the next ones come, and count as one.
func (d *Estimate) Latest(n, dt float64) float64 {
	if dt < together {
		n = min(n, d.Unit())
	}
	if d.jump(n, d.fast*dt) {
		return n / max(dt, moment)
	}
	return (d.fast*window + n) / (window + dt)
}

// silent reports whether there was no event for so long that chance allows it
// one time in 400.
func (d *Estimate) silent() bool { return d.reported*float64(d.quiet) > 6*d.atOnce() }

// atOnce is how much comes at once, at least a unit.
func (d *Estimate) atOnce() float64 {
	unit, clump := d.Unit(), float64(d.clump)
	if clump < smallest*unit {
		return unit
	}
	return clump
}

// Unit is the cost of an event, at least 1.
func (d *Estimate) Unit() float64 {
	if d.Cost > 1 {
		return d.Cost
	}
	return 1
}

// changed reports whether rate is another than was reported.
func (d *Estimate) changed(rate float64) bool {
	difference, larger := math.Abs(rate-d.reported), max(rate, d.reported)
	if difference <= larger/5 {
		return false
	}
	events := window / d.atOnce()
	sigmas := 4.0
	if d.over < window { // it was estimated in haste, and is likely to be wrong
		sigmas = 2
	}
	return difference*events > 1.5+sigmas*math.Sqrt(larger*events)
}

// jump reports whether chance does not explain a cost of n where mean is expected.
func (d *Estimate) jump(n, mean float64) bool {
	if once := d.atOnce(); once > 1 {
		n, mean = n/once, mean/once
	}
	return n > mean+4*math.Sqrt(mean)+3 || n < mean-3*math.Sqrt(mean)
}

// CatchUp is how many events/s would serve soon the callers that wait for so many
// tokens, which is less than 0 then. They were counted when they came.
func CatchUp(tokens float64) float64 {
	return max(-tokens, 0) / window
}
