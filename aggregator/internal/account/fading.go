// SPDX-License-Identifier: Apache-2.0

package account

import (
	"math"
	"time"
)

// Average is the moving average of what one host reports, and how it fades
// when the host falls silent:
//
//	1 ──────────┐ age < DecayAfter: as it was
//	            └──┐ then (1-Weight) for every Interval of age
//	               └──┐
//	0                 └── at GCAfter the host is forgotten
//
// Source: the load-aware limiter of Cadence.
type Average struct {
	// Weight is how much of the average the newest report makes, in (0, 1].
	Weight float64
	// Interval is how often hosts report; > 0.
	Interval time.Duration
	// DecayAfter is the age at which fading begins; ≥ 0.
	DecayAfter time.Duration
	// GCAfter is the age at which the host is forgotten; ≥ DecayAfter.
	GCAfter time.Duration
}

// Next is the average after a report of rate; old is the average before, as
// far as it has faded. A host's first report counts fully: do not call Next.
func (a Average) Next(old, rate Rates) Rates {
	return rate.Times(a.Weight).Plus(old.Times(1 - a.Weight))
}

// Stage is a step of fading: from age From on, Factor is left.
type Stage struct {
	From   time.Duration
	Factor float64
}

// mostSteps bounds the steps of fading, because a host's row has the number of its step in a byte.
const mostSteps = 250

// Stages lists the steps of fading in order of age. The first is no fading
// at all; the last has Factor 0 at GCAfter. Steps are of several Intervals if they would be too many.
func (a Average) Stages() []Stage {
	stages := []Stage{{0, 1}}
	step := (a.GCAfter-a.DecayAfter)/a.Interval/mostSteps + 1
	for from := a.DecayAfter; from < a.GCAfter; {
		n := from / a.Interval
		stages = append(stages, Stage{from, math.Pow(1-a.Weight, float64(n))})
		from = (n + step) * a.Interval
	}
	return append(stages, Stage{a.GCAfter, 0})
}
