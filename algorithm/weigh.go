// SPDX-License-Identifier: Apache-2.0

package algorithm

// Weigh divides capacity, in events/s or slots, among the hosts that use a key: it
// fills in parts, which is as long as demands and zero, and whose sum is at most
// capacity. A host that gets more than it wants, and a little on top, leaves the
// rest to the account.
//
// A Weigh is a pure function. It says only how to divide: the account that it
// runs on adds bursts, debt, leases and early reports.
//
// Demands are in no particular order, and are not to be changed: a Weigh that sorts them
// sorts a copy. All want something, there is at least one, and capacity is above 0.
type Weigh func(capacity float64, demands []Demand, parts []float64)

// Demand is what one host wants of a key.
type Demand struct {
	// Host is its name, and Labels is what membership says about it, such as its
	// zone and version. A report does not choose them.
	Host   string
	Labels Labels

	// Wants is its demand, in the unit of the capacity; above 0.
	Wants float64

	// Has is the part of the capacity that it has until its next report, in
	// [0, 1].
	Has float64

	// Clients is for how many the host speaks, at least 1: a host that uses a
	// limit by itself is 1, and a cluster that claims for its hosts is more.
	Clients float64
}

// perClient is what d wants for each of its clients.
func (d *Demand) perClient() float64 { return d.Wants / d.Clients }

// Labels are what membership says about a host. They do not change: all keys share them. The
// zero Labels are none.
type Labels struct{ values map[string]string }

// NewLabels returns Labels with these values by name, which the caller does not change any more.
func NewLabels(values map[string]string) Labels { return Labels{values} }

// Get is the value of the label called name; empty if there is none.
func (l Labels) Get(name string) string { return l.values[name] }

// Has reports whether there is a label called name.
func (l Labels) Has(name string) bool {
	_, ok := l.values[name]
	return ok
}

// Limit is what is shared: Rate in events/s and Burst in tokens, for the
// whole cluster; finite, ≥ 0.
type Limit struct{ Rate, Burst float64 }
