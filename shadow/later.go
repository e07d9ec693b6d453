// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

// measureLater asks a shadow that takes time to answer. Nobody waits for it:
// the comparison is counted when the answer is there.
func (l *Limiter) measureLater(shadow limiter.Later, mode dynamicconfig.Mode, now limiter.Instant, n int, longest time.Duration, primary bool) limiter.Reservation {
	return shadow.ReserveLater(now, n, longest, func(ok bool, _ time.Duration) { l.compare(mode, primary, ok, n) })
}

// waitBeside waits with the primary, and asks the shadow meanwhile. What that
// would have waited longer for is given back.
func (l *Limiter) waitBeside(ctx context.Context, primary limiter.Stepper, shadow limiter.Later, mode dynamicconfig.Mode, now limiter.Instant, n int, longest time.Duration) error {
	m := measurement{of: l, mode: mode, n: n}
	s := shadow.ReserveLater(now, n, longest, m.answer)
	err := wait(ctx, primary, n)
	m.end(err == nil, limiter.Now().Sub(now), s)
	return err
}

// measurement is of one wait, which ends before its shadow's answer is there or
// after.
type measurement struct {
	of   *Limiter
	mode dynamicconfig.Mode
	n    int

	mu              sync.Mutex // protects following fields
	answered, ended bool
	ok, primary     bool
	wait, took      time.Duration
	held            limiter.Reservation
}

// answer takes in what the shadow says.
func (m *measurement) answer(ok bool, wait time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.answered, m.ok, m.wait = true, ok, wait
	m.compareLocked()
}

// end takes in how the primary's wait ended.
func (m *measurement) end(primary bool, took time.Duration, held limiter.Reservation) {
	m.mu.Lock()
	defer m.mu.Unlock()

	m.ended, m.primary, m.took, m.held = true, primary, took, held
	m.compareLocked()
}

func (m *measurement) compareLocked() {
	if !m.answered || !m.ended {
		return
	}
	ready := m.ok && m.wait <= m.took
	if m.ok && !ready {
		m.held.Used(false)
	}
	m.of.compare(m.mode, m.primary, ready, m.n)
}

// wake tells limiters that begin to be asked what was let through without them.
// A bucket elsewhere is not this host's to cap, and neither is what an owner
// keeps for a limiter here: each host charges them with what it used for as long
// as a bucket takes to fill, so they have no more than the one that ends. They
// may have less, by at most the burst that was used in that time.
func (l *Limiter) wake(now limiter.Instant, before, after dynamicconfig.Mode) {
	used := int(min(l.recent.sum(now), maxWake))
	for _, s := range []limiter.Stepper{l.old, l.new} {
		if used > 0 && !l.asks(before, s) && l.asks(after, s) {
			s.ChargeAt(now, used)
		}
	}
	l.recent.window(l.elsewhere().Level(now))
}

// maxWake is far more than any bucket holds, and no overflow.
const maxWake = 1 << 40

// asks tells whether s is the primary or the shadow in mode.
func (l *Limiter) asks(mode dynamicconfig.Mode, s limiter.Stepper) bool {
	primary, shadow := l.roles(mode)
	return s == primary || s == shadow
}

// elsewhere is one of the two that takes time to answer, and knows its whole
// rule.
func (l *Limiter) elsewhere() limiter.Stepper {
	if _, ok := l.new.(limiter.Later); ok {
		return l.new
	}
	return l.old
}

// spent notes that the primary let n through in mode; if it is disabled, nothing
// was limited.
func (l *Limiter) spent(mode dynamicconfig.Mode, now limiter.Instant, n int, ok bool) {
	if l.slow && ok && mode != dynamicconfig.ModeDisabled {
		l.recent.add(now, n)
	}
}

// later is shadow if it takes time to answer.
func (l *Limiter) later(shadow limiter.Stepper) (limiter.Later, bool) {
	if !l.slow {
		return nil, false // the usual case, for which a look at its type costs too much
	}
	later, ok := shadow.(limiter.Later)
	return later, ok
}
