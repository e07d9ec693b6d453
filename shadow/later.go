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

// later is shadow if it takes time to answer.
func (l *Limiter) later(shadow limiter.Stepper) (limiter.Later, bool) {
	if !l.slow {
		return nil, false // the usual case, for which a look at its type costs too much
	}
	later, ok := shadow.(limiter.Later)
	return later, ok
}
