// SPDX-License-Identifier: Apache-2.0

package share

import (
	"math"
	"sync/atomic"

	"github.com/headgate/headgate/limiter/internal/since"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Grant is what a key's owner gave this host.
type Grant struct {
	// Given is false if there never was a grant.
	Given bool

	Floor               usage.Floor
	Weight, Burst, Used float64

	// Until is when the lease ends.
	Until stage.Instant
}

// lease is the newest Grant, in less room, and what is in force of it.
type lease struct {
	until         stage.Instant
	weight, burst float64
	used          atomic.Uint64 // float64 bits; Rate.Alone reads it beside reports
	floor         usage.Floor
	given         bool

	granted    bool        // the grant is in force
	raised     bool        // a Rate's bucket is deeper or faster than the grant: see Rate.Borrow and Rate.Alone
	inFallback since.Since // the key's owner should decide, and the fallback does
}

// Grant is the newest grant.
func (l *lease) Grant() Grant {
	return Grant{l.given, l.floor, l.weight, l.burst, l.UsedLately(), l.until}
}

// Until is when the lease of the newest grant ends.
func (l *lease) Until() stage.Instant { return l.until }

// Given reports whether there ever was a grant.
func (l *lease) Given() bool { return l.given }

// SetGrant notes a grant; Steer puts it in force.
func (l *lease) SetGrant(g Grant) {
	l.given, l.floor, l.until = g.Given, g.Floor, g.Until
	l.weight, l.burst = g.Weight, g.Burst
	l.used.Store(math.Float64bits(g.Used))
}

// UsedLately is Used of the newest grant. Safe for concurrent use.
func (l *lease) UsedLately() float64 { return math.Float64frombits(l.used.Load()) }

// Granted reports whether the grant is in force.
func (l *lease) Granted() bool { return l.granted }

// InFallback implements Part.
func (l *lease) InFallback() (since stage.Instant, ok bool) { return l.inFallback.At() }

// SetFallback overrides InFallback, for a Part whose owner is asked for each event.
func (l *lease) SetFallback(now stage.Instant, inFallback bool) {
	if inFallback {
		l.inFallback.Begin(now)
	} else {
		l.inFallback.End()
	}
}

// by says what decides.
func (l *lease) by() stage.Source {
	if l.inFallback.Holds() {
		return stage.ByFallback
	}
	return stage.ByAlgorithm
}

// Has is the weight of the grant, if it is in force.
func (l *lease) Has() float64 {
	if l.granted {
		return l.weight
	}
	return 0
}
