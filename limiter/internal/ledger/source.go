// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"time"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Source is the Part that reports are about.
type Source struct {
	Rate *share.Rate // what the Part is, or is around; nil if it is slots. It does not change
	part share.Part
}

// Part is what reports are about.
func (s *Source) Part() share.Part { return s.part }

// Slots are the Part; nil if it is a rate. Decisions call it, so it does not look at the Part of a Rate.
func (s *Source) Slots() *share.Slots {
	if s.Rate != nil {
		return nil
	}
	slots, _ := s.part.(*share.Slots)
	return slots
}

// SetPart replaces the Part by another view of the same Rate.
func (s *Source) SetPart(p share.RatePart) { s.part = p }

// Common is what every Part has. Decisions call it: they look at the Rate, which never
// changes, and not at the Part. So do Chargeable, Asks and Count.
func (s *Source) Common() *share.Base {
	if s.Rate != nil {
		return &s.Rate.Base
	}
	return s.part.Common()
}

// Terms are those in force.
func (s *Source) Terms() *share.Terms { return s.Common().Terms() }

// Name is that of the terms in force.
func (s *Source) Name() string { return s.Terms().Name() }

// Chargeable is how many of n tokens a bucket can be charged with.
func (s *Source) Chargeable(n int64) int64 { return s.Terms().Chargeable(n) }

// Early reports whether the host reports as soon as its demand changes.
func (s *Source) Early() bool { return s.Rate != nil && s.Rate.Terms().Traits.Early }

// Asks reports whether the host asks the key's owner for what it lacks.
func (s *Source) Asks() bool { return s.Rate != nil && s.Rate.Terms().Traits.Asks }

// ChargedByReports is that of the Terms.
func (s *Source) ChargedByReports() bool { return s.Rate != nil && s.Terms().ChargedByReports() }

// Prompt reports whether the host reports early for any reason.
func (s *Source) Prompt() bool { return s.Rate == nil || s.Terms().Traits.Early }

// Stale reports whether the lease of the grant in force has ended: until the Part is
// steered, the tokens are not those that decide.
func (s *Source) Stale(now stage.Instant) bool {
	c := s.Common()
	return c.Granted() != c.Valid(now)
}

// Count is what the Part has counted.
func (s *Source) Count(now stage.Instant) Reading {
	if s.Rate != nil {
		return Reading{s.Rate.Count(now), now}
	}
	return Reading{s.part.Count(now), now}
}

// Reading is a Part's counters at an instant.
type Reading struct {
	bucket.Usage
	At stage.Instant
}

// Since is what was counted after earlier; never negative.
func (r Reading) Since(earlier Reading) (allowed, rejected int64, elapsed time.Duration) {
	return max(r.Allowed-earlier.Allowed, 0), max(r.Rejected-earlier.Rejected, 0), r.At.Sub(earlier.At)
}
