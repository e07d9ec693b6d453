// SPDX-License-Identifier: Apache-2.0

package share

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/semaphore"
)

// Terms are what holds for all Parts of a rule under one of its algorithms.
// They do not change.
type Terms struct {
	Rule      *dynamicconfig.Rule
	Algorithm string
	Measured  bool // while another algorithm of the same pool answers: see dynamicconfig.Measured
	Traits    dynamicconfig.Traits

	// Reports: the host reports to the keys' owners and gets grants from them.
	Reports bool

	// Debt is the rule's max_debt, or 0.
	Debt time.Duration

	// Counts is where what the Parts count is added up; nil for Parts that do
	// not answer. The Group's lock guards it.
	Counts *bucket.Usage

	// Asked is where what the Parts asked their owners is added up, like Counts.
	Asked *Asked
}

// Name is that of the Algorithm in reports.
func (t *Terms) Name() string {
	if t.Measured {
		return dynamicconfig.Measured(t.Algorithm)
	}
	return t.Algorithm
}

// borrows is how far into the future waits and debts may take tokens.
func (t *Terms) borrows() time.Duration { return max(t.Rule.MaxDebt, t.Rule.MaxWait, 0) }

// Chargeable is how many of n tokens a full bucket of the whole limit can be charged with.
// The rest is forgiven and not counted: an average of what hosts use would remember one
// wrong charge for minutes.
func (t *Terms) Chargeable(n int64) int64 {
	if most := math.Ceil(t.Rule.Burst + t.Rule.MostDebt()); float64(n) > most {
		return int64(most)
	}
	return n
}

// ChargedByReports reports whether the owner of a key has a pool that only reports charge.
func (t *Terms) ChargedByReports() bool {
	return t.Reports && t.Traits.Pooled && !t.Traits.Asks && !t.Rule.InFlight
}

// Level is the rate and the depth of a bucket.
type Level struct {
	Limit rate.Limit
	Burst float64
}

// limited is l, or l with the rule's limit if l limits nothing.
func (l Level) limited(t *Terms) Level {
	if l.Limit == rate.Inf {
		l.Limit = t.Rule.Limit
	}
	return l
}

// Even is the part of one of so many hosts when the limit is divided evenly.
func (t *Terms) Even(hosts int) Level {
	n := float64(max(hosts, 1))
	return Level{t.Rule.Limit / rate.Limit(n), atLeastOne(t.Rule.Burst/n, t.Rule.Burst)}
}

// fallback is what a bucket gets without a valid grant.
func (t *Terms) fallback(hosts int) Level {
	if t.Traits.Local {
		return t.Even(hosts)
	}
	switch t.Rule.Fallback {
	case dynamicconfig.FallbackOpen:
		return Level{rate.Inf, t.Rule.Burst}
	case dynamicconfig.FallbackClosed:
		return Level{}
	case dynamicconfig.FallbackSafe:
		limit := t.Rule.SafeCapacity
		return Level{limit, atLeastOne(float64(limit), t.Rule.Burst)}
	default:
		return t.Even(hosts)
	}
}

// evenSlots is one host's part of the limit, rounded down. It is at least one slot
// if the limit is not zero: otherwise no host could do anything under a small limit.
// So hosts without a grant together hold at most the limit, or one slot each if that
// is more.
func (t *Terms) evenSlots(hosts int) int64 {
	most := wholeSlots(float64(t.Rule.Limit))
	return max(most/int64(max(hosts, 1)), min(most, 1))
}

// fallbackSlots are one host's without a valid grant.
func (t *Terms) fallbackSlots(hosts int) int64 {
	if !t.Reports {
		return t.evenSlots(hosts)
	}
	switch t.Rule.Fallback {
	case dynamicconfig.FallbackOpen:
		return semaphore.Unlimited
	case dynamicconfig.FallbackClosed:
		return 0
	case dynamicconfig.FallbackSafe:
		return wholeSlots(float64(t.Rule.SafeCapacity))
	default:
		return t.evenSlots(hosts)
	}
}

// wholeSlots rounds down, but for what a weight loses on the wire: half a slot at most.
func wholeSlots(x float64) int64 {
	x = math.Floor(x + min(x*0x1p-22, 0.5) + 1e-6)
	if !(x > 0) {
		return 0
	}
	return int64(min(x, 1<<53))
}

// atLeastOne keeps a divided burst from refusing everything: one token passes
// unless the whole burst is less.
func atLeastOne(burst, whole float64) float64 {
	if burst >= 1 {
		return burst
	}
	return max(burst, min(whole, 1))
}

var inf = math.Inf(1)
