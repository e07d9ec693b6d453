// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

// Limiter is two limiters behind a mode. It is safe for concurrent use, and a
// call that runs while the mode changes uses one mode throughout.
type Limiter struct {
	limiter.Limiter // the steps below, with a clock

	old, new limiter.Stepper
	mode     atomic.Uint32
	slow     bool   // one of them is a limiter.Later
	recent   recent // if slow

	counters counters

	switching sync.Mutex // serialises SetMode
}

var (
	_ limiter.Limiter   = (*Limiter)(nil)
	_ limiter.Migrator  = (*Limiter)(nil)
	_ limiter.Waiter    = (*Limiter)(nil)
	_ limiter.Acquirer  = (*Limiter)(nil)
	_ limiter.Explainer = (*Limiter)(nil)
)

// New returns a Limiter that goes from old to new and is in mode now. A mode
// that does not exist is taken for disabled.
func New(old, new limiter.Limiter, mode dynamicconfig.Mode) *Limiter {
	return FromSteps(limiter.Steps(old), limiter.Steps(new), mode)
}

// FromSteps is New for Steppers: both get the same reading of the clock.
func FromSteps(old, new limiter.Stepper, mode dynamicconfig.Mode) *Limiter {
	l := &Limiter{old: old, new: new}
	_, slowOld := old.(limiter.Later)
	_, slowNew := new.(limiter.Later)
	l.slow = slowOld || slowNew
	l.Limiter = limiter.FromSteps(l)
	if l.slow {
		l.recent.window(l.elsewhere().Level(limiter.Now()))
	}
	l.mode.Store(uint32(existing(mode)))
	return l
}

func existing(mode dynamicconfig.Mode) dynamicconfig.Mode {
	if mode > dynamicconfig.ModeNew {
		return dynamicconfig.ModeDisabled
	}
	return mode
}

// Mode is the mode in force.
func (l *Limiter) Mode() dynamicconfig.Mode { return dynamicconfig.Mode(l.mode.Load()) }

// SetMode changes the mode. The limiter that begins to answer has no more
// tokens than the one that ends, so a change of mode gives nobody a second
// burst. Where a bucket is elsewhere, both are charged with what they have missed
// lately, when they begin to be asked. A call that runs meanwhile may still take what it asks for from the
// one that ends; for each change that is one call per goroutine at most.
func (l *Limiter) SetMode(now limiter.Instant, mode dynamicconfig.Mode) {
	l.switching.Lock()
	defer l.switching.Unlock()

	before, _ := l.roles(l.Mode())
	after, _ := l.roles(existing(mode))
	if l.slow {
		l.wake(now, l.Mode(), existing(mode))
	}
	if before != after {
		after.CapAt(now, before.Level(now).Tokens)
	}
	l.mode.Store(uint32(existing(mode)))
	if before != after { // again, for what was taken meanwhile
		after.CapAt(now, before.Level(now).Tokens)
	}
}

// Counts returns the counts since New.
func (l *Limiter) Counts() Counts { return l.counters.counts() }

// roles are who answers and who is only measured, if anyone, in mode.
func (l *Limiter) roles(mode dynamicconfig.Mode) (primary, shadow limiter.Stepper) {
	switch mode {
	case dynamicconfig.ModeOld:
		return l.old, nil
	case dynamicconfig.ModeOldShadowNew:
		return l.old, l.new
	case dynamicconfig.ModeNewShadowOld:
		return l.new, l.old
	case dynamicconfig.ModeNew:
		return l.new, nil
	default:
		return limiter.Unlimited, nil
	}
}

// compare counts how both answered a call for n in mode.
func (l *Limiter) compare(mode dynamicconfig.Mode, primary, shadow bool, n int) {
	if i, n := answer(mode, primary, shadow), int64(max(n, 0)); !l.counters.add(i, n) {
		l.counters.addOwn(i, n)
	}
}
