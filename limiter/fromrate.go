// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/internal/foreign"
	"github.com/headgate/headgate/limiter/stage"
)

// FromRate returns a Limiter that takes its tokens from l. Other code may go on
// using l. It serves to put a shadow beside l, and for code that takes a *Limiter.
//
// Settle and Cancel give tokens back to l as (*rate.Reservation).Cancel does: fewer, the more
// events l has allowed since, and none while l's burst is zero. Because l can only take a reservation back whole, Settle
// for a part of it first reserves anew what was used. It does not if l has too few tokens for that, or if half of
// what was taken has filled in since. Then, and if the limit of l has changed since, Settle may give back more: at most
// the tokens that others take in the same moment, because l has no call that adds tokens and returns how many.
// A wait that would never end, because l's limit is zero, is refused. If l is nil, the Limiter refuses everything.
func FromRate(l *rate.Limiter) *Limiter {
	if l == nil {
		return new(Limiter)
	}
	return FromStage(foreign.Of(l))
}

// FromStage returns a Limiter whose tokens come from s. If s is nil, it refuses everything.
func FromStage(s stage.Stage) *Limiter {
	l := new(Limiter)
	if s != nil {
		keyOf(l).Serve(s)
	}
	return l
}
