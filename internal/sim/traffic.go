// SPDX-License-Identifier: Apache-2.0

package sim

import "math/rand/v2"

// stream is the events that one source sends to one host, or to any of its
// hosts. It finds each event when the one before has happened.
type stream struct {
	source int
	host   int // -1: each event goes to any of the source's hosts
	key    int
	costs  [2]int64 // smallest and largest
	even   bool
	parts  float64 // into how many streams the source's rate is divided
	end    Time
	chance *rand.Rand

	rates segments
	rate  float64 // events/s until until
	until Time
	at    Time    // of the last event
	frac  float64 // of a nanosecond, that at lacks
	begun bool
}

// next returns the time of the next event; false if there is none.
func (s *stream) next() (Time, bool) {
	need := 1.0
	switch {
	case !s.even:
		need = exponential(s.chance)
	case !s.begun: // so that hosts do not send in step
		need = s.chance.Float64()
	}
	s.begun = true
	for s.at < s.end {
		if s.at >= s.until {
			s.segment()
			continue
		}
		room := float64(s.until-s.at) - s.frac
		if wait := need / s.rate * 1e9; s.rate > 0 && wait < room && wait < float64(s.end) {
			wait += s.frac
			whole := Time(wait)
			s.at, s.frac = s.at+whole, wait-float64(whole)
			return s.at, s.at < s.end
		}
		need = max(need-room/1e9*s.rate, 0)
		s.at, s.frac = s.until, 0
	}
	return 0, false
}

func (s *stream) segment() {
	s.rate, s.until = s.rates(s.at)
	s.rate /= s.parts
}

// cost of the event that just happened.
func (s *stream) cost() int64 {
	if s.costs[0] == s.costs[1] {
		return s.costs[0]
	}
	return s.costs[0] + s.chance.Int64N(s.costs[1]-s.costs[0]+1)
}
