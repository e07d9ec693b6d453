// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"fmt"
	"iter"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
)

// Override changes the limit of a rule, of one key or of all rules until a time, and then
// ends by itself. It has a Factor, or a Limit, or Bypass. See dynamicconfig.Snapshot.At.
type Override struct {
	// Key is the key of a rule, which is a pattern or an exact key, or else one key that
	// a rule matches: then only this key is meant. Empty with All.
	Key string

	// All: every rule is meant, and keys without a rule are let through by a Bypass. A
	// rule or key that has an Override of its own goes by that one.
	All bool

	// Factor multiplies the limit; above 0, at most MaxFactor. 0: it does not.
	Factor float64

	// Limit is in force instead of the rule's, if Factor is 0 and Bypass is false; see
	// Rule.Limit. It is not for All.
	Limit rate.Limit

	// InFlight: Limit counts slots.
	InFlight bool

	// Bypass: everything is let through.
	Bypass bool

	// Until is when the Override ends. It holds while a host's clock is before Until.
	Until time.Time

	// Author and Reason are for people; 1 to 128, and 1 to 1024 bytes.
	Author, Reason string
}

// Bounds of Overrides.
const (
	// MinFactor is the smallest factor above 0.
	MinFactor = 0.001
	// MaxFactor is the largest factor.
	MaxFactor = 1000
	// MaxOverrides is how many Overrides a configuration may have.
	MaxOverrides = 1000
)

// Bypass is how a config file writes Override.Bypass.
const Bypass = "bypass"

// Amount is what is in force instead, as a config file writes it: "2x", "500/s",
// "20 in-flight" or "bypass".
func (o *Override) Amount() string {
	switch {
	case o.Bypass:
		return Bypass
	case o.Factor != 0:
		return quantity.Number(o.Factor) + "x"
	}
	return quantity.Amount(o.Limit, o.InFlight)
}

// String says what o does, for people: "2x until 2026-11-23T05:00:00Z by ada: the sale".
func (o *Override) String() string {
	return fmt.Sprintf("%s until %s by %s: %s", o.Amount(), o.Until.UTC().Format(time.RFC3339), o.Author, o.Reason)
}

// Name says which Override o is, in messages: `override of "a*"`.
func (o *Override) Name() string {
	if o.All {
		return "override of all rules"
	}
	return "override of " + message.Quote(o.Key)
}

// Unfit is why o can do nothing to r; empty if it can.
func (o *Override) Unfit(r *Rule) string {
	switch {
	case o.Bypass:
	case o.Factor != 0:
		if r.Limit == 0 {
			return "the limit is 0, and stays 0 when it is multiplied: write a limit"
		}
	case o.InFlight != r.InFlight:
		return fmt.Sprintf("it counts %s, and the limit counts %s: write both alike", quantity.Unit(o.InFlight), quantity.Unit(r.InFlight))
	}
	return ""
}

// On is r under o, which fits it. Burst, safe capacity and costs change in proportion to
// the limit, so that a bucket fills in the same time.
func (o *Override) On(r *Rule) *Rule {
	over := r.Clone()
	over.Override = o
	if o.Bypass {
		return &over
	}
	over.Limit = o.Limit
	factor := o.Factor
	if factor != 0 {
		over.Limit = r.Limit * rate.Limit(factor)
	} else if r.Limit > 0 {
		factor = float64(o.Limit / r.Limit)
	}
	if over.InFlight {
		over.Limit = wholeSlots(over.Limit)
		over.SafeCapacity = wholeSlots(r.SafeCapacity * rate.Limit(factor))
		return &over
	}
	if over.Limit > 0 {
		over.Limit = min(max(over.Limit, slowest), MaxLimit)
	}
	over.SafeCapacity = min(r.SafeCapacity*rate.Limit(factor), MaxLimit)
	switch {
	case over.Limit == 0:
		over.Burst = 0
	case r.Limit == 0:
		over.Burst = max(float64(over.Limit), 1)
	default:
		over.Burst = max(min(r.Burst*factor, LargestBurst(float64(over.Limit))), 1)
	}
	if over.MaxCost > 0 {
		over.MaxCost = max(min(r.MaxCost*factor, MaxCost), 1)
		if over.MaxDebt <= 0 {
			over.MaxCost = min(over.MaxCost, over.Burst) // none where nothing is allowed
		}
	}
	return &over
}

// slowest is the lowest limit above 0, in events/s: it fills one token in MaxRefill.
var slowest = rate.Limit(math.Nextafter(1/MaxRefill.Seconds(), 1))

// wholeSlots is a number of slots without its fraction: at least one, unless it is 0.
func wholeSlots(slots rate.Limit) rate.Limit {
	if slots <= 0 {
		return 0
	}
	return rate.Limit(min(max(math.Floor(float64(slots)+1e-9), 1), MaxSlots))
}

// Fields are o's fields as a config file writes them, by their names there; each is a
// string or a bool.
func (o *Override) Fields() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		_ = (!o.All || yield("all", true)) &&
			(o.All || yield("key", o.Key)) &&
			yield("limit", o.Amount()) &&
			yield("until", o.Until.UTC().Format(time.RFC3339Nano)) &&
			yield("author", o.Author) &&
			yield("reason", o.Reason)
	}
}
