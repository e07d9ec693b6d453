// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/semaphore"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// Slots is this host's part of a limit on what is in flight, under one
// algorithm. Slots that are held count as the host's: a cut takes effect as
// holders release.
//
// Use NewSlots. The methods of stage.Slots are safe for concurrent use.
type Slots struct {
	Base
	free     *semaphore.Semaphore
	observer Observer
	allowed  atomic.Int64 // slots, ever
	rejected atomic.Int64
	apart    bool // see KeepApart; guarded by the Group's lock
}

var (
	_ stage.Slots = (*Slots)(nil)
	_ Part        = (*Slots)(nil)
)

// NewSlots returns Slots in fallback.
func NewSlots(now stage.Instant, key string, t *Terms, hosts int) *Slots {
	s := new(Slots)
	s.init(key, t)
	s.free = semaphore.New(0, func(now stage.Instant, waits bool) {
		if s.Terms().Reports {
			s.observer.RanLow(now, waits)
		}
	})
	s.Steer(now, hosts)
	return s
}

// Observe implements Part.
func (s *Slots) Observe(o Observer) { s.observer = o }

// AcquireFast is TryAcquire without a look at the clock: false says nothing.
func (s *Slots) AcquireFast(n int64) (stage.Hold, bool) {
	h, ok := s.free.TryAcquireFast(n)
	if ok {
		s.allowed.Add(n)
	}
	return h, ok
}

// TryAcquire implements stage.Slots.
func (s *Slots) TryAcquire(now stage.Instant, n int64) (stage.Hold, error) {
	h, err := s.free.TryAcquire(now, n)
	s.count(n, err)
	return h, err
}

// Acquire implements stage.Slots.
func (s *Slots) Acquire(ctx context.Context, n, priority int64) (stage.Hold, error) {
	h, err := s.free.Acquire(ctx, n, priority)
	s.count(n, err)
	if err != nil && ctx.Err() == nil && !errors.Is(err, stage.ErrMoved) {
		err = fmt.Errorf("limiter: acquire %d: %w", n, err)
	}
	return h, err
}

func (s *Slots) count(n int64, err error) {
	switch {
	case err == nil:
		s.allowed.Add(n)
	case !errors.Is(err, stage.ErrMoved):
		s.rejected.Add(n)
	}
}

// Level implements stage.Slots.
func (s *Slots) Level(stage.Instant) stage.Level {
	c := s.free.Census()
	if c.Size == semaphore.Unlimited {
		return stage.Level{Limit: rate.Inf, Burst: inf, Tokens: inf}
	}
	return stage.Level{Limit: rate.Limit(c.Size), Burst: float64(c.Size), Tokens: float64(c.Free())}
}

// Census counts the slots and those who wait for them.
func (s *Slots) Census() semaphore.Census { return s.free.Census() }

// Steer implements Part.
func (s *Slots) Steer(now stage.Instant, hosts int) {
	t := s.Terms()
	s.granted = s.Valid(now)
	s.SetFallen(t.Reports && !s.granted)
	size, most := s.fallbackSlots(hosts), wholeSlots(float64(t.Rule.Limit))
	if s.granted {
		size = s.grantedSlots(hosts)
	}
	s.free.Resize(size, max(size, most))
}

// Forget implements Part.
func (s *Slots) Forget(now stage.Instant, hosts int) {
	s.SetGrant(Grant{})
	s.Steer(now, hosts)
}

// evenSlots is one host's part of the limit, rounded down, but at least one of
// a limit that is not zero: else a small limit on many hosts would mean that
// nothing happens anywhere. So hosts without a grant hold at most the limit
// together, or one each if that is more.
func (s *Slots) evenSlots(hosts int) int64 {
	most := wholeSlots(float64(s.Terms().Rule.Limit))
	return max(most/int64(max(hosts, 1)), min(most, 1))
}

// fallbackSlots are this host's without a valid grant.
func (s *Slots) fallbackSlots(hosts int) int64 {
	t := s.Terms()
	if !t.Reports {
		return s.evenSlots(hosts)
	}
	switch t.Rule.Fallback {
	case dynamicconfig.FallbackOpen:
		return semaphore.Unlimited
	case dynamicconfig.FallbackClosed:
		return 0
	case dynamicconfig.FallbackSafe:
		return wholeSlots(float64(t.Rule.SafeCapacity))
	default:
		return s.evenSlots(hosts)
	}
}

// grantedSlots are this host's with its grant.
func (s *Slots) grantedSlots(hosts int) int64 {
	if s.floor == rpc.FloorDrop {
		return s.evenSlots(hosts) // chance says nothing about slots
	}
	return wholeSlots(float64(s.granting(hosts).Limit))
}

// wholeSlots rounds down, but for what a weight loses on the wire.
func wholeSlots(x float64) int64 {
	x = math.Floor(x*(1+0x1p-22) + 1e-6)
	if !(x > 0) {
		return 0
	}
	return int64(min(x, 1<<53))
}

// Count implements Part.
func (s *Slots) Count(stage.Instant) bucket.Usage {
	return bucket.Usage{Allowed: s.allowed.Load(), Rejected: s.rejected.Load()}
}

// Inherit implements Part.
func (s *Slots) Inherit(u bucket.Usage) {
	s.allowed.Add(u.Allowed)
	s.rejected.Add(u.Rejected)
}

// Tokens implements Part.
func (s *Slots) Tokens(stage.Instant) float64 { return 0 }

// Has implements Part: what is held is not free to be given to others.
func (s *Slots) Has() float64 {
	weight := s.has()
	if held := float64(s.free.Census().Held); held > 0 {
		weight = max(weight, held/float64(s.Terms().Rule.Limit))
	}
	return min(weight, 1)
}

// Idle implements Part.
func (s *Slots) Idle(stage.Instant) bool {
	_, stated := s.Stated()
	return !stated && s.free.Census().Idle()
}

// Retire implements Part: waiters look for the slots that the key has now.
func (s *Slots) Retire() { s.free.Close() }

// KeepApart says that the other side of a migration, which has ended, counts
// what is held in s too.
func (s *Slots) KeepApart() { s.apart = true }

// Transfer has what is held in s, which is retired, count in to from now on, and
// reports whether it does.
func (s *Slots) Transfer(to *Slots) bool {
	if !s.apart {
		s.free.Transfer(to.free)
	}
	return !s.apart
}

// Wants is the demand in slots, as observed since the last call.
func (s *Slots) Wants(now stage.Instant) float64 { return s.free.Wants(now) }
