// SPDX-License-Identifier: Apache-2.0

package report

import (
	"time"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// source is the Part that a Subject reports about.
type source struct {
	part share.Part
	rate *share.Rate // what part is, or is around; nil if it is slots
}

// Part is what the Subject reports about.
func (s *source) Part() share.Part { return s.part }

// common is what every Part has. Decisions call it: they look at the Rate, which never
// changes, and not at the Part. So do Owed, asks and count.
func (s *source) common() *share.Base {
	if s.rate != nil {
		return &s.rate.Base
	}
	return s.part.Common()
}

func (s *source) terms() *share.Terms { return s.common().Terms() }

// Algorithm is the one whose terms are in force.
func (s *source) Algorithm() string { return s.terms().Algorithm }

// Owed returns how many of n tokens that are charged a bucket can owe.
func (s *source) Owed(n int64) int64 { return s.terms().Owed(n) }

// early reports whether the Subject reports as soon as its demand changes.
func (s *source) early() bool { return s.rate != nil && s.rate.Terms().Traits.Early }

// asks reports whether the host asks the key's owner for what it lacks.
func (s *source) asks() bool { return s.rate != nil && s.rate.Terms().Traits.Asks }

// prompt reports whether the Subject reports early for any reason.
func (s *source) prompt() bool { return s.rate == nil || s.terms().Traits.Early }

// stale reports whether the lease of the grant in force has ended: until the next
// round's Visit, the tokens are not those that decide.
func (s *source) stale(now stage.Instant) bool {
	c := s.common()
	return c.Granted() != c.Valid(now)
}

// count is what the Part has counted.
func (s *source) count(now stage.Instant) reading {
	if s.rate != nil {
		return reading{s.rate.Count(now), now}
	}
	return reading{s.part.Count(now), now}
}

// reading is a Part's counters at an instant.
type reading struct {
	bucket.Usage
	at stage.Instant
}

// since is what was counted after earlier; never negative.
func (r reading) since(earlier reading) (allowed, rejected int64, elapsed time.Duration) {
	return max(r.Allowed-earlier.Allowed, 0), max(r.Rejected-earlier.Rejected, 0), r.at.Sub(earlier.at)
}
