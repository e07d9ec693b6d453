// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// auto is a share that asks a Remote for each event while its key's owner says
// so, with a grant of nothing. Else its bucket decides, as any share's. Before
// anybody has said anything it asks if its even share is too little.
//
// While it asks, its own bucket is the fallback's, and reports go on: the owner
// has to know who wants how much.
type auto struct {
	*asked
	own  ruled       // the same share, when it does not ask
	asks atomic.Bool // orders nothing else
}

var (
	_ Stepper   = (*auto)(nil)
	_ Explainer = (*auto)(nil)
	_ Waiter    = (*auto)(nil)
	_ Later     = (*auto)(nil)
	_ reserver  = (*auto)(nil)
	_ holder    = (*auto)(nil)
)

// worthALook is how many events an even share must give in an interval for a
// host to begin with it. With fewer the owner is asked.
const worthALook = 2

// autoOf is s's auto, which asks r.
func (g *Group) autoOf(s *share, r Remote) *auto {
	if s.auto == nil || s.auto.remote != r {
		s.auto = &auto{asked: newAsked(g, s, r), own: ruled{s}}
		s.auto.told = true
	}
	s.auto.turn(s.shouldAsk(int(g.hosts.Load())))
	return s.auto
}

// steer has a ask if it should by now. What rules its bucket is in force.
func (a *auto) steer(hosts int) {
	if a.turn(a.shouldAsk(hosts)) {
		a.group.redirect(a)
	}
}

// shouldAsk tells whether s is to ask for each event, in a cluster of so many
// hosts.
func (s *share) shouldAsk(hosts int) bool {
	switch {
	case s.granted:
		return false
	case s.grant.given:
		return s.grant.nothing
	}
	return float64(s.even(hosts).limit)*s.auto.group.interval().Seconds() < worthALook
}

// turn has a ask or not, and tells whether that is new.
func (a *auto) turn(asks bool) (changed bool) {
	a.unheard.Store(!a.grant.given)
	a.fallen.Store(!a.granted && !asks)
	return a.asks.Swap(asks) != asks
}

// redirect has a's key decided by its bucket alone if nothing is to be asked,
// and by a if something is. g.mu is held.
func (g *Group) redirect(a *auto) {
	c, k := g.coreOf(a.key), g.table.get(a.key)
	if c == nil || k == nil || len(c.shares) != 1 || !slices.Contains(c.shares, a.share) {
		return // or somebody else decides, who finds a
	}
	if o := k.other.Load(); o == nil || o.step == Stepper(a) {
		g.decideBy(k, a)
	}
}

// hasDropped has s's owner hear soon that this host holds nothing any more.
func (g *Group) hasDropped(now Instant, s *share) {
	if s.fallen.Load() { // nobody can be asked
		g.tellFallback(now, s)
	}
	g.early.mu.Lock()
	defer g.early.mu.Unlock()

	g.urgeLocked(now, s, coalesce)
}

// whoIsAsked completes what is known of share i.
func (c *core) whoIsAsked(i int, st *ShareStatus) {
	switch a := c.step(i).(type) {
	case *asked:
		st.Asks = true
	case *auto:
		st.Asks = a.asks.Load()
		admitted := a.admitted.Load()
		st.Allowed += admitted
		st.Rejected -= admitted
	}
}

// tellOwed tells the Remotes of shares what they are owed still.
func (c *core) tellOwed() {
	for _, s := range c.shares {
		if s.auto != nil {
			s.auto.tell()
		}
	}
}

// step is what decides now.
func (a *auto) step() reserver {
	if a.asks.Load() {
		return a.asked
	}
	return a.own
}

// AllowAt implements Stepper.
func (a *auto) AllowAt(now Instant, n int) bool {
	return a.judgeAt(context.Background(), now, n, 0).ok()
}

// ReserveAt implements Stepper.
func (a *auto) ReserveAt(now Instant, n int, longest time.Duration) Reservation {
	r, _ := a.reserveAt(context.Background(), now, n, longest)
	return r
}

// ReserveLater implements Later.
func (a *auto) ReserveLater(now Instant, n int, longest time.Duration, done func(ok bool, wait time.Duration)) Reservation {
	if a.asks.Load() {
		return a.asked.ReserveLater(now, n, longest, done)
	}
	r, v := a.own.reserveAt(context.Background(), now, n, longest)
	done(v.ok(), v.wait)
	return r
}

func (a *auto) judgeAt(ctx context.Context, now Instant, n int, longest time.Duration) verdict {
	return a.step().judgeAt(ctx, now, n, longest)
}

func (a *auto) reserveAt(ctx context.Context, now Instant, n int, longest time.Duration) (Reservation, verdict) {
	return a.step().reserveAt(ctx, now, n, longest)
}

// DecideAt implements Explainer.
func (a *auto) DecideAt(ctx context.Context, now Instant, n int, longest time.Duration) Decision {
	d, _ := a.holdAt(ctx, now, n, longest)
	return d
}

func (a *auto) holdAt(ctx context.Context, now Instant, n int, longest time.Duration) (Decision, Reservation) {
	if a.asks.Load() {
		return a.asked.holdAt(ctx, now, n, longest)
	}
	return a.share.holdAt(ctx, now, n, longest)
}

// WaitN implements Waiter.
func (a *auto) WaitN(ctx context.Context, n int) error { return waitFor(ctx, a, n) }

// ChargeAt implements Stepper.
func (a *auto) ChargeAt(now Instant, n int) {
	if a.asks.Load() {
		a.asked.ChargeAt(now, n)
		return
	}
	a.share.ChargeAt(now, n)
}

// Level implements Stepper.
func (a *auto) Level(now Instant) Level {
	if a.asks.Load() {
		return a.asked.Level(now)
	}
	return a.share.Level(now)
}
