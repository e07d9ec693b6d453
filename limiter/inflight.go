// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// inFlight is a share of slots. It has the share's counters, grant and place
// among what is reported, and slots instead of a bucket.
type inFlight struct{ *share }

var (
	_ Stepper  = inFlight{}
	_ Acquirer = inFlight{}
)

// TryAcquireAt implements Acquirer.
func (f inFlight) TryAcquireAt(now Instant, n int) (Hold, bool) {
	if n <= 0 || n > maxCost {
		return Hold{}, n == 0
	}
	h, err := f.slots.take(now, int64(n))
	switch {
	case err == nil:
		f.allowed.Add(int64(n))
		return h, true
	case errors.Is(err, errMoved):
		return f.group.For(f.key).TryAcquireAt(now, n)
	}
	f.rejected.Add(int64(n))
	return Hold{}, false
}

// AcquireHold implements Acquirer.
func (f inFlight) AcquireHold(ctx context.Context, n int, options ...AcquireOption) (Hold, error) {
	if err := ctx.Err(); err != nil {
		return Hold{}, err
	}
	switch {
	case n < 0:
		return Hold{}, fmt.Errorf("limiter: acquire %d: slots cannot be negative", n)
	case n == 0:
		return Hold{}, nil
	case n > maxCost:
		return Hold{}, fmt.Errorf("limiter: acquire %d: %w", n, ErrNever)
	}
	h, err := f.slots.wait(ctx, int64(n), priorityOf(options))
	switch {
	case err == nil:
		f.allowed.Add(int64(n))
		return h, nil
	case errors.Is(err, errMoved):
		return f.group.For(f.key).AcquireHold(ctx, n, options...)
	case ctx.Err() == nil:
		err = fmt.Errorf("limiter: acquire %d: %w", n, err)
	}
	f.rejected.Add(int64(n))
	return Hold{}, err
}

// AllowAt implements Stepper: nothing would say when the event ends.
func (f inFlight) AllowAt(_ Instant, n int) bool { return n == 0 }

// ReserveAt implements Stepper.
func (f inFlight) ReserveAt(Instant, int, time.Duration) Reservation { return &ticket{} }

// ChargeAt implements Stepper.
func (f inFlight) ChargeAt(Instant, int) {}

// CapAt implements Stepper: slots that are held come back to who gave them.
func (f inFlight) CapAt(Instant, float64) {}

// Level implements Stepper.
func (f inFlight) Level(Instant) Level {
	c := f.slots.census()
	if c.size == unlimitedSlots {
		return Level{Limit: rate.Inf, Burst: inf, Tokens: inf, Refused: ErrInFlight}
	}
	return Level{Limit: rate.Limit(c.size), Burst: float64(c.size), Tokens: float64(c.free()), Refused: ErrInFlight}
}

// fit is steer for slots.
func (s *share) fit(now Instant, hosts int) {
	s.granted = s.valid(now)
	s.fallen.Store(s.remote && !s.granted)
	size, most := s.fallbackSlots(hosts), wholeSlots(float64(s.rule.Limit))
	if s.granted {
		size = s.grantedSlots(hosts)
	}
	s.slots.resize(size, max(size, most))
}

// evenSlots is one host's part of the limit, rounded down, but at least one of
// a limit that is not zero: else a small limit on many hosts would mean that
// nothing happens anywhere. So hosts without a grant hold at most the limit
// together, or one each if that is more.
func (s *share) evenSlots(hosts int) int64 {
	most := wholeSlots(float64(s.rule.Limit))
	return max(most/int64(max(hosts, 1)), min(most, 1))
}

// fallbackSlots are this host's without a valid grant.
func (s *share) fallbackSlots(hosts int) int64 {
	if !s.remote {
		return s.evenSlots(hosts)
	}
	switch s.rule.Fallback {
	case dynamicconfig.FallbackOpen:
		return unlimitedSlots
	case dynamicconfig.FallbackClosed:
		return 0
	case dynamicconfig.FallbackSafe:
		return wholeSlots(float64(s.rule.SafeCapacity))
	default:
		return s.evenSlots(hosts)
	}
}

// grantedSlots are this host's with its grant.
func (s *share) grantedSlots(hosts int) int64 {
	if s.grant.floor == rpc.FloorDrop {
		return s.evenSlots(hosts) // chance says nothing about slots
	}
	return wholeSlots(float64(s.grantLevel(hosts).limit))
}

// wholeSlots rounds down, but for what a weight loses on the wire.
func wholeSlots(x float64) int64 {
	x = math.Floor(x*(1+0x1p-22) + 1e-6)
	if !(x > 0) {
		return 0
	}
	return int64(min(x, 1<<53))
}

// hasSlots is the part of the limit that s has, and at least what is held:
// that is not free to be given to others.
func (s *share) hasSlots() float64 {
	held, limit := float64(s.slots.census().held), float64(s.rule.Limit)
	weight := 0.0
	if s.granted {
		weight = s.grant.weight
	}
	if held > 0 {
		weight = max(weight, held/limit)
	}
	return min(weight, 1)
}

// short asks for more slots soon, unless that was in vain lately: then once it
// is time to ask again, if somebody waits; and with the regular report, if it
// was in vain again and again.
func (s *share) short(now Instant, waits bool) {
	due := Instant(s.pulse.askAt.Load())
	if !s.remote || now < due && !waits {
		return
	}
	g := s.group
	if !waits && !g.early.mu.TryLock() {
		return // decisions wait for nobody: the next one asks
	}
	if waits {
		g.early.mu.Lock()
	}
	defer g.early.mu.Unlock()

	if s.pulse.gap < g.interval() {
		g.urgeLocked(now, s, max(due.Sub(now), coalesce))
	}
}

// bequeath tells whether nobody holds slots of s, which is no key's any more:
// nobody does, or they count for the share that the key has now. As long as
// somebody does, they are reported.
func (g *Group) bequeath(now Instant, s *share, batches *batches) (over bool) {
	if !s.slots.census().busy() {
		return true
	}
	if c := g.coreOf(s.key); c != nil {
		if heir := find(c.shares, s.algorithm); heir != nil && heir.slots != nil {
			s.slots.bequeath(heir.slots)
			return true
		}
	}
	if now >= s.waiting {
		s.report(now, batches)
	}
	return false
}

// refit puts a grant of slots in force, and asks again if they do not do for
// those who wait. The gap grows as long as asking brings nothing.
func (g *Group) refit(now Instant, s *share, hosts int, asked bool) {
	before := s.slots.census()
	s.fit(now, hosts)
	after := s.slots.census()

	g.early.mu.Lock()
	defer g.early.mu.Unlock()

	p := &s.pulse
	switch {
	case after.size > before.size:
		p.gap = shortestGap
	case asked || after.starved:
		p.gap = min(3*p.gap, g.interval()*3/2)
	default:
		p.gap = max(p.gap/4, shortestGap)
	}
	p.askAt.Store(int64(now.Add(p.gap)))
	if after.waiting > 0 && p.gap < g.interval() && !p.gone {
		g.urgeLocked(now, s, p.gap)
	}
}
