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
	ceiling    *ceiling                // the next charge lowers the inactive level to it; nil: none
	marks      forgiven.Marks          // of the debts in both levels
	remoteMark forgiven.Mark           // of the debts in the remote bucket that is asked, as far as this host knows
	remote     *AdmittedRemote         // counts for the remote bucket that was asked before; nil: none
	precharge  *Precharge              // at the remote bucket that is asked; nil: none
	uncharged  int64                   // see Uncharged
	events     int64                   // of uncharged, what the Rate has allowed
	inherited  bucket.Usage            // what the bucket counts for another Part: see levels.Inherit
	counters   [counters]*atomic.Int64 // nil: 0
	left, full bool                    // see Leave
	paired     bool                    // see SetPaired
}

// The counters that few Rates have. They count tokens.
const (
	costly = iota // see Beside
	bypassed
	awaited // see Awaited
	back    // see GivenBack
	taken   // of back, by TakeBack
	counters
)

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

// Uncharged is how many tokens the next report is to charge the key's owner with, more than it says were allowed.
func (x *extras) Uncharged() int64 { return x.extra().uncharged }

// AddUncharged adds n tokens to what r has Uncharged, or takes some off if n is negative, and adds those of events that r allowed.
func AddUncharged(r *Rate, n, events int64) {
	r.update(func(e *extra) {
		e.uncharged = max(e.uncharged+n+events, 0)
		e.events = min(e.events+events, e.uncharged)
	})
}

// TakeUncharged returns what r has Uncharged, n tokens and those of events that r allowed, and sets it to 0.
func TakeUncharged(r *Rate) (n, events int64) {
	was := r.update(func(e *extra) { e.uncharged, e.events = 0, 0 })
	return was.uncharged - was.events, was.events
}

// HasBeside reports whether r may have tokens Uncharged or Awaited. It is cheaper than these.
func HasBeside(r *Rate) bool { return r.current.Load() != nil }

// counter is one of the counters of x. It is made if there is none.
func counter(x *extras, which int) *atomic.Int64 {
	for {
		if n := x.extra().counters[which]; n != nil {
			return n
		}
		x.update(func(e *extra) {
			if e.counters[which] == nil {
				e.counters[which] = new(atomic.Int64)
			}
		})
	}
}

// count is what a counter has.
func (e *extra) count(which int) int64 {
	if n := e.counters[which]; n != nil {
		return n.Load()
	}
	return 0
}

// Awaited is the most tokens for which callers still wait, if the bucket has so many tokens. Not all of a
// debt is awaited: no caller waits for a charge. It is for one caller at a time.
func (x *extras) Awaited(tokens float64) int64 {
	before := x.extra().count(awaited)
	if before == 0 {
		return 0
	}
	still := min(before, int64(math.Ceil(max(-tokens, 0))))
	counter(x, awaited).Add(still - before)
	return still
}

// GiveBack counts n tokens of r that a caller gives back.
func GiveBack(r *Rate, n int64) { counter(&r.extras, back).Add(min(n, bucket.MaxCost)) }

// GivenBack is how many tokens of r callers have ever given back: Count or Admitted has become less by these.
func GivenBack(r *Rate) int64 { return r.extra().count(back) }

// TakeBack is GivenBack since the last call. It is for one caller at a time.
func TakeBack(r *Rate) (n int64) {
	if n = GivenBack(r); n > 0 {
		n -= counter(&r.extras, taken).Swap(n)
	}
	return n
}

// CountBeside counts n tokens of an event that no bucket has counted: an override let it through,
// or it costs more than any may.
func (x *extras) CountBeside(n int64, bypass bool) {
	which := costly
	if bypass {
		which = bypassed
	}
	counter(x, which).Add(min(n, bucket.MaxCost))
}

// Beside is how many tokens CountBeside has counted. They are no demand, so Count leaves them out.
func (x *extras) Beside() (bypass, cost int64) {
	e := x.extra()
	return e.count(bypassed), e.count(costly)
}

// Leave says that the key has left the Rate, whose levels were full or not. The part that the key has now gets what callers
// give back. If they were not full, it gets no tokens that made a debt, because it may have begun with less of that debt.
func (x *extras) Leave(full bool) { x.update(func(e *extra) { e.left, e.full = true, full }) }

// passesOn reports whether what comes back of a receipt goes to the part that the key has now.
func (e *extra) passesOn(receipt stage.Receipt) bool {
	_, debt := receipt.Rest.(forgiven.Debt)
	return e.left && (e.full || !debt)
}
