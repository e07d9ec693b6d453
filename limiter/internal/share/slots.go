// SPDX-License-Identifier: Apache-2.0

package share

import (
	"github.com/headgate/headgate/limiter/internal/semaphore"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Slots is this host's part of a limit on what is in flight, under one
// algorithm. Slots that are held count as the host's: a cut takes effect as
// holders release.
//
// Use NewSlots. The methods of stage.Slots are safe for concurrent use.
type Slots struct {
	Base
	inFlight
	apart bool // see KeepApart; guarded by the Group's lock
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
			s.RanLow(now, waits)
		}
	})
	s.Steer(now, hosts)
	return s
}

// Steer implements Part.
func (s *Slots) Steer(now stage.Instant, hosts int) {
	t := s.Terms()
	s.granted = s.Valid(now)
	s.SetFallback(now, t.Reports && !s.granted)
	size, most := t.fallbackSlots(hosts), wholeSlots(float64(t.Rule.Limit))
	switch {
	case t.Rule.Bypassed():
		size = semaphore.Unlimited
	case s.granted && s.floor == usage.FloorDrop:
		size = t.evenSlots(hosts) // chance says nothing about slots
	case s.granted:
		size = wholeSlots(float64(s.granting(hosts).Limit))
	}
	s.free.Resize(size, max(size, most))
}

// Forget implements Part.
func (s *Slots) Forget(now stage.Instant, hosts int) {
	s.SetGrant(Grant{})
	s.Steer(now, hosts)
}

// Tokens implements Part.
func (s *Slots) Tokens(stage.Instant) float64 { return 0 }

// Has is the part of the limit that the host has, in [0, 1]: what is held is not free to be given to others.
func (s *Slots) Has() float64 {
	weight := s.Base.Has()
	if held := float64(s.free.Census().Held); held > 0 {
		weight = max(weight, held/float64(s.Terms().Rule.Limit))
	}
	return min(weight, 1)
}

// Occupied is how many slots are not free to be given to others: those of the grant, or those
// that are held if there are more.
func (s *Slots) Occupied() int64 {
	granted := wholeSlots(s.Base.Has() * float64(s.Terms().Rule.Limit))
	return max(granted, s.free.Census().Held)
}

// Admitted implements Part: no slots are elsewhere.
func (*Slots) Admitted() int64 { return 0 }

// TakeAdmitted implements Part.
func (*Slots) TakeAdmitted(*Asked) (admitted int64) { return 0 }

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
