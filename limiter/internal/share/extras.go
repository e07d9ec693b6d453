// SPDX-License-Identifier: Apache-2.0

package share

import (
	"math"
	"sync/atomic"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/forgiven"
	"github.com/headgate/headgate/limiter/stage"
)

// extras is what few Rates need. The others pay one word for it. The zero extras is empty.
// Safe for concurrent use.
type extras struct {
	current atomic.Pointer[extra] // nil is the zero extra
}

// extra is the content of an extras. It does not change: an update replaces it.
type extra struct {
	ceiling    *ceiling        // the next charge lowers the inactive level to it; nil: none
	marks      forgiven.Marks  // of the debts in both levels
	remoteMark forgiven.Mark   // of the debts in the remote bucket that is asked, as far as this host knows
	remote     *AdmittedRemote // counts for the remote bucket that was asked before; nil: none
	precharge  *Precharge      // at the remote bucket that is asked; nil: none
	uncharged  int64           // see Uncharged
	inherited  bucket.Usage    // what the bucket counts for another Part: see levels.Inherit
	costly     *atomic.Int64   // see Beside; nil: none
	bypassed   *atomic.Int64   // see Beside; nil: none
	awaited    *atomic.Int64   // see Awaited; nil: none
	back       *atomic.Int64   // see TakeBack; nil: none
	left, full bool            // see Leave
	returned   int64           // see TakeReturned
	paired     bool            // see SetPaired
}

// ceiling is the most tokens that a level had at an instant.
type ceiling struct {
	tokens float64
	at     stage.Instant
}

// noExtra is the content of most extras. It does not change.
var noExtra extra

// extra is the current content, which callers do not change.
func (x *extras) extra() *extra {
	if e := x.current.Load(); e != nil {
		return e
	}
	return &noExtra
}

// update replaces the content by what f makes of it, and returns the earlier content.
func (x *extras) update(f func(*extra)) (was extra) {
	for {
		old := x.current.Load()
		if was = noExtra; old != nil {
			was = *old
		}
		next := new(extra)
		*next = was
		if f(next); *next == noExtra {
			next = nil
		}
		if x.current.CompareAndSwap(old, next) {
			return was
		}
	}
}

// Uncharged is how many tokens, beside those that the Rate allows, its key's owner is still to be charged with.
func (x *extras) Uncharged() int64 { return x.extra().uncharged }

// AddUncharged makes what r has Uncharged n more, or less if n is negative.
func AddUncharged(r *Rate, n int64) {
	r.update(func(e *extra) { e.uncharged = max(e.uncharged+n, 0) })
}

// HasBeside reports whether r may have tokens Uncharged or Awaited. It is cheaper than these.
func HasBeside(r *Rate) bool { return r.current.Load() != nil }

// await counts n tokens of an event that waits for them.
func (x *extras) await(n int64) {
	counter(x, func(e *extra) **atomic.Int64 { return &e.awaited }).Add(n)
}

// counter is the counter of x that of names. It is made if there is none.
func counter(x *extras, of func(*extra) **atomic.Int64) *atomic.Int64 {
	for {
		if n := *of(x.extra()); n != nil {
			return n
		}
		x.update(func(e *extra) {
			if n := of(e); *n == nil {
				*n = new(atomic.Int64)
			}
		})
	}
}

// Awaited is for how many tokens callers still wait, at most, if the bucket has so many tokens.
// Charges make debts too, for which no caller waits. It is for one caller at a time.
func (x *extras) Awaited(tokens float64) int64 {
	n := x.extra().awaited
	if n == nil {
		return 0
	}
	before := n.Load()
	still := min(before, int64(math.Ceil(max(-tokens, 0))))
	n.Add(still - before)
	return still
}

// GiveBack counts n tokens of r that a caller gives back.
func GiveBack(r *Rate, n int64) { addBack(&r.extras, n) }

func addBack(x *extras, n int64) {
	counter(x, func(e *extra) **atomic.Int64 { return &e.back }).Add(min(n, bucket.MaxCost))
}

// TakeBack is how many tokens of r callers have given back since the last call: Count or Admitted has become less by
// these. It is for one caller at a time.
func TakeBack(r *Rate) int64 {
	if n := r.extra().back; n != nil && n.Load() != 0 {
		return n.Swap(0)
	}
	return 0
}

// CountBeside counts n tokens of an event that no bucket has counted: an override let it through,
// or it costs more than any may.
func (x *extras) CountBeside(n int64, bypassed bool) {
	counter(x, func(e *extra) **atomic.Int64 {
		if bypassed {
			return &e.bypassed
		}
		return &e.costly
	}).Add(min(n, bucket.MaxCost))
}

// Beside is how many tokens CountBeside has counted. They are no demand, so Count leaves them out.
func (x *extras) Beside() (bypassed, costly int64) {
	e := x.extra()
	if e.bypassed != nil {
		bypassed = e.bypassed.Load()
	}
	if e.costly != nil {
		costly = e.costly.Load()
	}
	return bypassed, costly
}

// Leave says that the key has left the Rate, whose levels may have been full. The part that the key has now gets what
// callers give back, unless that made a debt, of which the next part may have begun with less.
func (x *extras) Leave(full bool) { x.update(func(e *extra) { e.left, e.full = true, full }) }

// Return says that n tokens went back to the remote bucket of r. If r's key was forgotten since, the Rate that the key has
// now is told.
func Return(r *Rate, n int64) {
	if e := r.extra(); !e.left || !e.full {
		return
	}
	if to := r.Successor(); to != nil {
		to.update(func(e *extra) { e.returned += n })
	}
}

// TakeReturned is how many tokens went back to the key's remote bucket, since the last call, that were taken before the key
// was forgotten.
func (x *extras) TakeReturned() int64 {
	if x.extra().returned == 0 {
		return 0
	}
	return x.update(func(e *extra) { e.returned = 0 }).returned
}

// leaves reports whether the part that the key has now gets what comes back of a receipt.
func (e *extra) leaves(receipt stage.Receipt) bool {
	_, debt := receipt.Rest.(forgiven.Debt)
	return e.left && (e.full || !debt)
}
