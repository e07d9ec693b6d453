// SPDX-License-Identifier: Apache-2.0

package limiter

import "time"

// Ask is a cost of n to one limiter.
type Ask struct {
	Limiter Limiter
	N       int
}

// AllowAll tells whether everything that is asked for may happen at t, and
// takes the tokens if so. If one limiter refuses, the others' tokens go back
// and are not counted as usage: as if they had not been asked. Ask the
// narrowest limit first.
func AllowAll(t time.Time, asks ...Ask) bool { return TryAll(t, asks...).OK() }

// TryAll is AllowAll whose tokens can be given back, with Used(false).
func TryAll(t time.Time, asks ...Ask) Reservation {
	held := make(bundle, 0, len(asks))
	for _, a := range asks {
		r := a.Limiter.TryN(t, a.N)
		if !r.OK() {
			r.Used(false)
			held.Used(false)
			return &ticket{}
		}
		held = append(held, r)
	}
	return held
}

// bundle is several reservations that are all OK.
type bundle []Reservation

func (b bundle) OK() bool { return true }

func (b bundle) Delay() time.Duration { return b.DelayFrom(Now().Time()) }

func (b bundle) DelayFrom(t time.Time) (longest time.Duration) {
	for _, r := range b {
		longest = max(longest, r.DelayFrom(t))
	}
	return longest
}

func (b bundle) Cancel() { b.CancelAt(Now().Time()) }

func (b bundle) CancelAt(t time.Time) {
	for _, r := range b {
		r.CancelAt(t)
	}
}

func (b bundle) Used(used bool) {
	for _, r := range b {
		r.Used(used)
	}
}
