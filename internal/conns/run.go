// SPDX-License-Identifier: Apache-2.0

package conns

import "time"

// sweepEvery is how often connections are looked at that say nothing.
const sweepEvery = time.Second

// armLocked has a sweep come, if none is to come yet.
func (l *Listener) armLocked() {
	if l.sweeping == nil {
		l.sweeping = time.AfterFunc(sweepEvery, func() { l.sweep(time.Now()) })
	}
}

// sweep closes the connections that are late.
func (l *Listener) sweep(now time.Time) {
	var late []*conn
	l.mu.Lock()
	l.sweeping = nil
	for c := range l.conns {
		if c.requests.late(now, l.limits) {
			late = append(late, c)
		}
	}
	if len(l.conns) > 0 && !l.shut {
		l.armLocked()
	}
	l.mu.Unlock()
	for _, c := range late {
		l.limited.Inc(1)
		_ = c.Close()
	}
}
