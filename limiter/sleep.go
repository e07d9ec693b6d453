// SPDX-License-Identifier: Apache-2.0

package limiter

import "time"

// sleeper is a key that sleeps, and when it is to be forgotten.
type sleeper struct {
	k     *Keyed
	until Instant
}

// restless is how many intervals a key must be unused before it sleeps.
const restless = 2

// tired tells whether c, which has one share, was not used for so long, so that
// its decider takes it to have nothing.
func (c *core) tired(now Instant, long time.Duration) bool {
	return len(c.shares) == 1 && now.Sub(c.shares[0].used) >= long
}

// sleepLocked has k sleep, which is tired, and tells whether it does: if its
// bucket is full. What is left of it is its place in the table. Like one that was
// forgotten, it begins with its fallback when it is used again.
func (g *Group) sleepLocked(now Instant, k *Keyed) bool {
	s := k.core.shares[0]
	if s.slots != nil || !s.rests(now) {
		return false
	}
	p := g.table.part(g.table.hash(k.key))
	p.mu.Lock()
	defer p.mu.Unlock()

	a := k.core.admitted
	g.asleep = append(g.asleep, sleeper{k, k.core.lastUsed().Add(a.rule.IdleAfter)})
	k.other.Store(a.sleep)
	k.share.Store(nil)
	k.core = nil
	g.gone = append(g.gone, s) // somebody may be using it still
	g.end(s)
	return true
}

// rests tells whether there is nothing to say about s, and nothing to lose.
func (s *share) rests(now Instant) bool {
	allowed, rejected, _ := s.count(now).since(s.reported)
	switch {
	case !s.idle(now) || now < s.waiting || s.remote && allowed+rejected > 0:
		return false
	case s.eager: // a few events a minute are still a demand
		s.group.early.mu.Lock()
		defer s.group.early.mu.Unlock()

		return s.pulse.demand.told <= quietDemand
	}
	return true
}

// forgetSleepersLocked forgets those that have slept for long enough at now.
func (g *Group) forgetSleepersLocked(now Instant) {
	asleep := g.asleep[:0]
	for _, s := range g.asleep {
		switch {
		case !s.k.sleeps(): // it is among the live again
		case now >= s.until:
			g.forgetSleeper(now, s.k)
		default:
			asleep = append(asleep, s)
		}
	}
	clear(g.asleep[len(asleep):])
	g.asleep = fitted(asleep)
}

// fitted is s without the room of a time when there were many more.
func fitted[E any](s []E) []E {
	if cap(s) > 1024 && len(s) < cap(s)/8 {
		return append(make([]E, 0, 2*len(s)), s...)
	}
	return s
}

// sleeps may change at any time, when the key is used.
func (k *Keyed) sleeps() bool {
	o := k.other.Load()
	return o != nil && o.asleep != nil
}

// forgetSleeper takes k out of the table, unless it has just woken up.
func (g *Group) forgetSleeper(now Instant, k *Keyed) {
	h := g.table.hash(k.key)
	p := g.table.part(h)
	p.mu.Lock()
	defer p.mu.Unlock()

	if o := k.other.Load(); o != nil && o.asleep != nil {
		p.deleteLocked(&g.table, h, k)
		k.other.Store(nil)
		o.asleep.keys.Add(-1)
		g.tellOf(now, EventRemoved, k.key, o.asleep.rule)
	}
}

// coreOf is what key is made of; nil if it is not live.
func (g *Group) coreOf(key string) *core {
	k := g.table.get(key)
	if k == nil {
		return nil
	}
	// Whoever wakes a key up holds its part of the table, and not g.mu.
	p := g.table.part(g.table.hash(key))
	p.mu.Lock()
	defer p.mu.Unlock()

	return k.core
}
