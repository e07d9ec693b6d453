// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"math"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// way is a weigher, with its name.
type way struct {
	name string
	algorithm.Weigher
}

func (w way) String() string { return w.name }

func wayOf(name string) way {
	a, err := algorithm.Builtin().Lookup(name)
	if err != nil {
		panic(err)
	}
	return way{name, a.Weigher}
}

var (
	noneWay      = wayOf(algorithm.NameNone)
	staticWay    = wayOf(algorithm.NameStatic)
	proportional = wayOf(algorithm.NameProportionalShare)
	fair         = wayOf(algorithm.NameFairShare)
	ways         = []way{noneWay, staticWay, proportional, fair}
	allWays      = append(ways, way{"by demand", algorithm.Weigher{Weigh: algorithm.RequestWeighted, Form: algorithm.FormDemand}},
		way{"fair, plainly", algorithm.Weigher{Weigh: algorithm.FairShare}})
)

// NewLeases is an account that w divides.
func (w way) NewLeases() *Leases {
	l := new(Leases)
	l.follow(&account.Settings{Interval: time.Second}, w.Weigher, nil)
	return l
}

// within has the band of priority of l divided by w, or as all others if w is nil.
func within(l *Leases, priority int64, w *way) {
	all := make(map[int64]algorithm.Weigher)
	for p, other := range l.ways {
		if p != priority {
			all[p] = other
		}
	}
	if w != nil {
		all[priority] = w.Weigher
	}
	l.follow(l.settings, l.way, all)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// Split is what the plain form of w makes of claims, whose priorities do not matter.
// A host that wants nothing counts in the even share of the others, as in an account.
func (w way) Split(capacity float64, claims []Band) []float64 {
	demands, parts, all := make([]algorithm.Demand, len(claims)), make([]float64, len(claims)), 0.0
	for i, b := range claims {
		b = clean(b)
		demands[i] = algorithm.Demand{Wants: b.Wants, Clients: float64(b.Clients)}
		all += b.Wants
	}
	if all > 0 {
		w.Weigh(atMost(capacity, maxAmount), demands, parts)
	}
	for i := range parts {
		parts[i] = min(parts[i], demands[i].Wants)
	}
	return parts
}
