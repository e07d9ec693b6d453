// SPDX-License-Identifier: Apache-2.0

package traffic

import "math/rand/v2"

// Stream is the events of one source, at one host or at all of its hosts. It
// finds each event when the one before has happened.
type Stream struct {
	// Rates is how many events/s there are, divided by Parts.
	Rates  Segments
	Parts  float64
	Even   bool // events come at equal distances, else as a Poisson process
	End    Time
	Cost   Cost
	Chance *rand.Rand

	// People are the clients that events come from; nil: there are none. Then
	// what the rates say is divided into clumps, each of one client.
	People *People

	// Client sent the event that Next found last.
	Client int

	rate  float64 // events/s until until
	until Time
	at    Time    // of the last arrival
	frac  float64 // of a nanosecond, that at lacks
	begun bool

	clumps clumps
	clump  Time // when the next one begins
	more   bool // whether it does
}

// Next returns the time of the next event; false if there is none.
func (s *Stream) Next() (Time, bool) {
	if s.People == nil {
		return s.arrival()
	}
	if s.clumps == nil {
		s.clumps = make(clumps, 0, 16)
		s.clump, s.more = s.arrival()
	}
	for len(s.clumps) == 0 || s.more && s.clump < s.clumps[0].at {
		if !s.more {
			return 0, false
		}
		s.clumps.push(clump{at: s.clump, client: s.People.draw(s.Chance), left: s.People.size(s.Chance)})
		s.clump, s.more = s.arrival()
	}
	first := s.clumps.pop()
	s.Client = first.client
	if first.left > 1 {
		s.clumps.push(clump{first.at + s.People.pause(s.Chance), first.client, first.left - 1})
	}
	return first.at, first.at < s.End
}

// arrival returns when the next event comes, or the next clump of them.
func (s *Stream) arrival() (Time, bool) {
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
	if s.People != nil {
		s.rate /= s.People.Clump
	}
}
