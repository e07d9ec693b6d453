// SPDX-License-Identifier: Apache-2.0

package share

import (
	"context"
	"math"
	"sync/atomic"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Part is a Rate or a Slots, as reports see it.
type Part interface {
	// Common is what both kinds have.
	Common() *Base

	// SetTerms changes the terms; Steer puts them in force.
	SetTerms(now stage.Instant, t *Terms)

	// Steer puts in force what should decide now, in a cluster of so many
	// hosts: the grant while it is valid, else the fallback.
	Steer(now stage.Instant, hosts int)

	// Forget drops the grant, as when another algorithm takes over.
	Forget(now stage.Instant, hosts int)

	// Count returns what was allowed and rejected, ever. Refunds may take it
	// below what was reported.
	Count(now stage.Instant) bucket.Usage

	// Admitted is the cost that Count returns as rejected although a bucket
	// elsewhere allowed it. Safe for concurrent use.
	Admitted() int64

	// TakeAdmitted is what Admitted has grown by since the last call. It adds what was
	// asked since to asked, which may be nil.
	TakeAdmitted(asked *Asked) (admitted int64)

	// Inherit takes over what another Part of the key counted and did not report.
	Inherit(u bucket.Usage)

	// Tokens are those left; 0 for slots.
	Tokens(now stage.Instant) float64

	// Level is what the Part applies at now.
	Level(now stage.Instant) stage.Level

	// Asking reports whether a remote bucket is asked for each event now. Safe
	// for concurrent use.
	Asking() bool

	// Charging reports whether the key's owner is charged now with what was used before the
	// Part asked it. Until that has an answer, the owner takes too much for left.
	Charging() bool

	// InFallback reports whether the fallback decides, though an owner or a remote bucket
	// should, and since when, to the second. Safe for concurrent use.
	InFallback() (since stage.Instant, ok bool)

	// Idle reports whether nothing is lost by forgetting the Part now.
	Idle(now stage.Instant) bool

	// Retire ends the Part: no key has it any more. Decisions that are still
	// made with it are reported to the Observer.
	Retire()
}

// RatePart is a Part of a limit in events/s.
type RatePart interface {
	Part

	// Own is the Rate that the Part is, or that it is around.
	Own() *Rate

	// Lend puts a grant in force that changes the tokens too, by more. It returns the
	// tokens that are left then.
	Lend(now stage.Instant, more float64, hosts int) (left float64)

	// Refill fills the bucket and the inactive level, and forgives their debts. Tokens
	// that the key's owner lends with its grants are its own: of such a grant, only the
	// debt is forgiven.
	Refill(now stage.Instant)

	// RefillElsewhere has a remote bucket filled, and waits for the answer.
	// Safe for concurrent use.
	RefillElsewhere(ctx context.Context, now stage.Instant) error
}

// RateOf is the Rate that p is, or that it is around; nil for slots.
func RateOf(p Part) *Rate {
	if r, ok := p.(RatePart); ok {
		return r.Own()
	}
	return nil
}

// Observer is called by decisions that found few tokens or slots. Its methods do not
// block, and are safe for concurrent use.
type Observer interface {
	// RanLow is called by a decision that left, or found, too little. waits
	// says that a caller waits for slots, or has waited for the key's owner because
	// there is no grant.
	RanLow(now stage.Instant, waits bool)

	// Demand is how much the host wants of the key by now, in cost/s; 0 if that is
	// not known at once. unit is what its largest recent events cost, at least 1.
	Demand(now stage.Instant) (wants, unit float64)

	// Settled returns the number of the newest report, and whether it was answered:
	// then the owner knows as of which report it lends.
	Settled() (number uint32, ok bool)

	// Successor is the Rate that the key has now in place of one that it left; nil if there
	// is none.
	Successor() *Rate
}

// Base is what every Part has. Its methods are safe for concurrent use where
// they say so.
type Base struct {
	Observer // set once, before the Part is used

	key    string
	terms  atomic.Pointer[Terms]
	stated atomic.Uint64 // float64 bits of the demand, or of Measured

	lease
}

// Measured is the demand of a Part for which the service stated none.
const Measured = -1.0

// Auto is the algorithm under which a host reports its usage to the key's owner, and
// asks it for what its grant does not cover.
const Auto = "auto"

func (b *Base) init(key string, t *Terms) {
	b.key = key
	b.terms.Store(t)
	b.stated.Store(math.Float64bits(Measured))
}

// Common implements Part.
func (b *Base) Common() *Base { return b }

// Asking implements Part: a Part decides by itself, unless it says otherwise.
func (b *Base) Asking() bool { return false }

// Charging implements Part: most charge their owners by reports alone.
func (b *Base) Charging() bool { return false }

// Key is the key that the Part is of.
func (b *Base) Key() string { return b.key }

// Terms are those in force. Safe for concurrent use.
func (b *Base) Terms() *Terms { return b.terms.Load() }

// SetTerms implements Part.
func (b *Base) SetTerms(_ stage.Instant, t *Terms) { b.terms.Store(t) }

// Valid reports whether the grant should decide at now.
func (b *Base) Valid(now stage.Instant) bool {
	return b.Terms().Reports && b.given && b.until > now
}

// Stated is the demand that the service stated, in events/s or slots; false if
// it is measured. Safe for concurrent use.
func (b *Base) Stated() (wants float64, ok bool) {
	wants = math.Float64frombits(b.stated.Load())
	return wants, wants >= 0
}

// State states the demand, or Measured, and reports whether that is news.
func (b *Base) State(wants float64) bool {
	return b.stated.Swap(math.Float64bits(wants)) != math.Float64bits(wants)
}

// granting is the level that the grant gives.
func (b *Base) granting(hosts int) Level {
	t := b.Terms()
	limit, even := float64(t.Rule.Limit), float64(t.Even(hosts).Limit)
	quota, burst := limit*b.weight, b.burst
	if burst > t.Rule.Burst { // the rule may have changed
		burst = t.Rule.Burst
	}
	if b.floor == usage.FloorDrop {
		return Level{rate.Inf, t.Rule.Burst}
	}
	if quota < even {
		switch b.floor {
		case usage.FloorUnused:
			quota = min(quota+max(0, limit-b.UsedLately()), even)
		case usage.FloorEven:
			quota = even
		}
		if b.floor != usage.FloorNone && limit > 0 {
			burst = max(burst, t.Rule.Burst*quota/limit)
		}
	}
	if t.Traits.Wants {
		if wants, stated := b.Stated(); stated && quota > wants {
			// The owner takes all demand for measured, and lends some more.
			burst *= wants / quota
			quota = wants
		}
	}
	return Level{rate.Limit(quota), atLeastOne(burst, t.Rule.Burst)}
}
