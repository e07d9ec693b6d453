// SPDX-License-Identifier: Apache-2.0

package share

import (
	"sync/atomic"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/forgiven"
	"github.com/headgate/headgate/limiter/stage"
)

// rare is what few Rates have, so that the others pay one word for it. The zero rare has
// none of it. Safe for concurrent use.
type rare struct {
	seldom atomic.Pointer[seldom] // nil: none of it
}

// seldom is what a rare has. It does not change: another one takes its place.
type seldom struct {
	ceil      *ceil // until the next charge lowers the inactive level to it; nil: none
	marks     forgiven.Marks
	elsewhere forgiven.Mark // of the bucket elsewhere that is asked, as far as this host knows
	left      *Elsewhere    // by the bucket elsewhere that was asked before; nil: none
	debt      *Debt         // at the bucket elsewhere that is asked; nil: none
	back      int64         // see Returned
	used      int64         // by parts that r has succeeded
	inherited bucket.Usage  // what the bucket counts for another Part: see levels.Inherit
	costly    *atomic.Int64 // see TooCostly; nil: none
	full      bool          // its key has left r, whose levels were full
	beside    bool          // see SetBeside
}

// ceil is the most tokens that a level had at an instant.
type ceil struct {
	tokens float64
	at     stage.Instant
}

// none is what most rares have. It does not change.
var none seldom

// has is what r has, which callers do not change.
func (r *rare) has() *seldom {
	if s := r.seldom.Load(); s != nil {
		return s
	}
	return &none
}

// replace changes what is seldom by f, and returns what it was.
func (r *rare) replace(f func(*seldom)) (was seldom) {
	for {
		old := r.seldom.Load()
		if was = none; old != nil {
			was = *old
		}
		next := new(seldom)
		*next = was
		if f(next); *next == none {
			next = nil
		}
		if r.seldom.CompareAndSwap(old, next) {
			return was
		}
	}
}

// Succeeded is what other parts had used when the Rate took over from them.
func (r *rare) Succeeded() int64 { return r.has().used }

// RejectCostly counts n tokens of an event that costs more than any may.
func (r *rare) RejectCostly(n int64) {
	s := r.has()
	for ; s.costly == nil; s = r.has() {
		r.replace(func(s *seldom) {
			if s.costly == nil {
				s.costly = new(atomic.Int64)
			}
		})
	}
	s.costly.Add(min(n, bucket.MaxCost))
}

// TooCostly are the tokens that RejectCostly has counted. They are no demand, so Count has
// none of them.
func (r *rare) TooCostly() int64 {
	if n := r.has().costly; n != nil {
		return n.Load()
	}
	return 0
}

// LeaveFull says that the key of r is idle, or is forgotten, and comes back with a full bucket, as
// that of r was. What callers give back from then on is that bucket's.
func (r *rare) LeaveFull() { r.replace(func(s *seldom) { s.full = true }) }
