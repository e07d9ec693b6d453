// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math"
	"math/rand/v2"
	"time"
)

// Rate is how many events/s a source sends, over time. Rates that change all
// the time (ramp, sine) change in steps of 100 ms.
type Rate interface {
	// Segments returns what yields the rate piece by piece. Each source and
	// host has its own chance.
	Segments(r *rand.Rand) Segments
}

// Segments returns the rate from time from on, and when it changes next.
type Segments func(from Time) (rate float64, until Time)

const (
	// Forever is later than all events.
	Forever = Time(math.MaxInt64)
	fine    = 100 * time.Millisecond
)

// Constant is a rate that does not change, in events/s.
type Constant float64

// Segments implements Rate.
func (c Constant) Segments(*rand.Rand) Segments {
	return func(Time) (float64, Time) { return float64(c), Forever }
}

// Step is a rate from a time on.
type Step struct {
	At   Time
	Rate float64 // events/s
}

// Steps is a rate that jumps; zero before the first. Times increase.
type Steps []Step

// Segments implements Rate.
func (s Steps) Segments(*rand.Rand) Segments {
	next := 0 // the first step after from; from never goes back
	return func(from Time) (float64, Time) {
		for next < len(s) && s[next].At <= from {
			next++
		}
		rate, until := 0.0, Forever
		if next > 0 {
			rate = s[next-1].Rate
		}
		if next < len(s) {
			until = s[next].At
		}
		return rate, until
	}
}

// Ramp is a rate that goes from one level to another, in a straight line.
type Ramp struct {
	From, To float64 // events/s
	At       Time    // when it begins to change
	For      time.Duration
}

// Segments implements Rate.
func (p Ramp) Segments(*rand.Rand) Segments {
	return func(from Time) (float64, Time) {
		switch {
		case from < p.At:
			return p.From, p.At
		case from >= p.At+p.For:
			return p.To, Forever
		}
		// The middle of the piece stands for all of it.
		part := min(float64(from-p.At+fine/2)/float64(p.For), 1)
		return p.From + part*(p.To-p.From), min(from+fine, p.At+p.For)
	}
}

// Sine is a rate that swings around a mean. Where it would be negative it is
// zero. Phase is where in the period it begins.
type Sine struct {
	Mean, Amplitude float64 // events/s
	Period, Phase   time.Duration
}

// Segments implements Rate.
func (s Sine) Segments(*rand.Rand) Segments {
	return func(from Time) (float64, Time) {
		angle := 2 * math.Pi * float64(from+fine/2+s.Phase) / float64(s.Period)
		return max(s.Mean+s.Amplitude*math.Sin(angle), 0), from + fine
	}
}

// Walk is a rate that is multiplied every so often by 1 + U(−Step, Step).
type Walk struct {
	Start float64 // events/s
	Step  float64 // part of the rate, 0..1
	Every time.Duration
}

// Segments implements Rate.
func (w Walk) Segments(r *rand.Rand) Segments {
	rate, until := w.Start, w.Every
	return func(from Time) (float64, Time) {
		for until <= from {
			rate *= 1 + w.Step*(2*r.Float64()-1)
			until += w.Every
		}
		return rate, until
	}
}
