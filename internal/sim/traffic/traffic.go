// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math/rand/v2"
)

// Stream is the events that one source sends to one host, or to any of its
// hosts. It finds each event when the one before has happened.
type Stream struct {
	Source int
	Host   int // -1: each event goes to any of the source's hosts
	Key    int
	Costs  [2]int64 // smallest and largest
	Even   bool
	Parts  float64 // into how many streams the source's rate is divided
	End    Time
	Chance *rand.Rand

	Rates Segments
	rate  float64 // events/s until until
	until Time
	at    Time    // of the last event
	frac  float64 // of a nanosecond, that at lacks
	begun bool
}

// Next returns the time of the next event; false if there is none.
func (s *Stream) Next() (Time, bool) {
	need := 1.0
	switch {
	case !s.Even:
		need = Exponential(s.Chance)
	case !s.begun: // so that hosts do not send in step
		need = s.Chance.Float64()
	}
	s.begun = true
	for s.at < s.End {
		if s.at >= s.until {
			s.segment()
			continue
		}
		room := float64(s.until-s.at) - s.frac
		if wait := need / s.rate * 1e9; s.rate > 0 && wait < room && wait < float64(s.End) {
			wait += s.frac
			whole := Time(wait)
			s.at, s.frac = s.at+whole, wait-float64(whole)
			return s.at, s.at < s.End
		}
		need = max(need-room/1e9*s.rate, 0)
		s.at, s.frac = s.until, 0
	}
	return 0, false
}

func (s *Stream) segment() {
	s.rate, s.until = s.Rates(s.at)
	s.rate /= s.Parts
}

// Cost of the event that just happened.
func (s *Stream) Cost() int64 {
	if s.Costs[0] == s.Costs[1] {
		return s.Costs[0]
	}
	return s.Costs[0] + s.Chance.Int64N(s.Costs[1]-s.Costs[0]+1)
}
