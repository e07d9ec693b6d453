// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math"
	"math/rand/v2"
	"time"
)

// OnOff is the sum of sources that are on and off in turn. How long they are is
// drawn from a Pareto distribution, so that traffic is bursty on all scales of
// time: self-similar, with a Hurst parameter of (3 − Shape) ÷ 2.
type OnOff struct {
	Sources int
	Rate    float64       // events/s of a source that is on
	On, Off time.Duration // means
	Shape   float64       // 1..2, both excluded
}

// Mean is the mean rate of all sources together, in events/s.
func (o OnOff) Mean() float64 {
	return float64(o.Sources) * o.Rate * float64(o.On) / float64(o.On+o.Off)
}

// Segments implements Rate.
func (o OnOff) Segments(r *rand.Rand) Segments {
	type source struct {
		on    bool
		until Time
	}
	sources := make([]source, o.Sources)
	for i := range sources {
		s := &sources[i]
		s.on = r.Float64()*float64(o.On+o.Off) < float64(o.On)
		s.until = o.rest(r, s.on)
	}
	return func(from Time) (float64, Time) {
		on, until := 0, Forever
		for i := range sources {
			s := &sources[i]
			for s.until <= from {
				s.on = !s.on
				s.until += o.period(r, s.on)
			}
			if until = min(until, s.until); s.on {
				on++
			}
		}
		return float64(on) * o.Rate, until
	}
}

// longest bounds a period, which could be endless.
const longest = 100 * 24 * time.Hour

// period draws how long a source stays on or off.
func (o OnOff) period(r *rand.Rand, on bool) time.Duration {
	_, shortest := o.mean(on)
	return bounded(shortest * math.Pow(1-r.Float64(), -1/o.Shape))
}

// rest draws how much is left of a period that began before anybody looked. Long
// periods are likelier to be met than short ones, so that this is longer than a
// part of a period would be, and the mean rate is right from the start.
func (o OnOff) rest(r *rand.Rand, on bool) time.Duration {
	mean, shortest := o.mean(on)
	longer := 1 - r.Float64() // the chance that a rest is longer than this one
	if longer > 1/o.Shape {
		return bounded(mean * (1 - longer))
	}
	return bounded(shortest * math.Pow(o.Shape*longer, -1/(o.Shape-1)))
}

// mean and shortest length of a period, in nanoseconds.
func (o OnOff) mean(on bool) (mean, shortest float64) {
	mean = float64(o.Off)
	if on {
		mean = float64(o.On)
	}
	return mean, mean * (o.Shape - 1) / o.Shape
}

func bounded(period float64) time.Duration {
	return time.Duration(min(max(period, 1), float64(longest)))
}
