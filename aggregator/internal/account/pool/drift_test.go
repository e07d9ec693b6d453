// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc/usage"
)

// Beside a host that wants 1e15 events/s, the sum of all demands has no room for the
// fractions of what the others want. When that host and they are done, the sum is not less
// than nothing: the next host has a rate, and not a debt.
func TestAHostThatWantsVeryMuchLeavesOthersARate(t *testing.T) {
	limit := algorithm.Limit{Rate: 1e9, Burst: 1e9}
	for _, name := range []string{algorithm.NameAuto, algorithm.NameElastic} {
		k := made(name)
		report := func(now time.Duration, host uint32, wants float64) (account.Grant, bool) {
			return k.Report(now, limit, host, &account.Report{Elapsed: time.Second, Wants: wants, Cost: 1})
		}
		report(0, 0, 0) // a new owner listens at first
		for _, others := range []float64{0.18, 0.17, 0.05, 0.2} {
			report(time.Minute, 1, 1e15)
			report(time.Minute, 2, others)
			report(time.Minute, 3, others)
			report(time.Minute, 1, 0)
			report(time.Minute, 2, 0)
			report(time.Minute, 3, 0)
			if wants, _ := account.Wanted(k); wants != 0 {
				t.Errorf("%s: all hosts together want %v, after they wanted %v each", name, wants, others)
			}
			g, ok := report(time.Minute, 4, 0.01)
			if !ok || !(g.Weight > 0 && g.Used >= 0) {
				t.Errorf("%s: a host that wants little is granted %+v, after others wanted %v each", name, g, others)
			}
			report(time.Minute, 4, 0)
		}
	}
}

// A demand beyond reason counts as one that a sum has room for: what other hosts want is not lost
// beside it, and a weigher has numbers that it can add up.
func TestADemandBeyondReasonHidesNoOther(t *testing.T) {
	limit := algorithm.Limit{Rate: 600, Burst: 600}
	for name, k := range map[string]account.Account{"auto": made(algorithm.NameAuto), "elastic": made(algorithm.NameElastic), "weighed": weighing(algorithm.RequestWeighted)} {
		now := time.Duration(0)
		report := func(host uint32, wants float64) account.Grant {
			g, _ := k.Report(now, limit, host, &account.Report{Elapsed: time.Second, Wants: wants, Cost: 1, Has: 0.1})
			return g
		}
		report(0, 0) // a new owner listens at first
		const honest = 900.5 + 250.25 + 50.125
		for _, wants := range []float64{1 << 53, 1e18, 3e38, math.MaxFloat64} {
			now += interval
			report(1, 900.5)
			report(2, 250.25)
			report(3, 50.125)
			if g := report(4, wants); !account.Valid(g.Weight) {
				t.Errorf("%s: a host that wants %g has the weight %v", name, wants, g.Weight)
			}
			report(4, 0)
			if all, _ := account.Wanted(k); all != honest {
				t.Errorf("%s: a host that wanted %g wants nothing, and all want %v, want %v", name, wants, all, honest)
			}
		}
		p, ok := k.(*asked)
		if !ok {
			continue
		}
		report(4, 1)
		took := p.Take(now, limit, &usage.Take{Key: "k", Auto: true, Tokens: 1, More: 100, Wants: 1 << 53}, 1, 4)
		report(4, 0)
		if all, _ := account.Wanted(k); !took.OK || all != honest {
			t.Errorf("%s: a host asked for as much (%+v), and all want %v, want %v", name, took, all, honest)
		}
	}
}
