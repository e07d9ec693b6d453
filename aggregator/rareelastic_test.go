// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

// A host of a cluster below a parent has an event now and then, under elastic.
func TestRareEventsPassBelowAParentUnderElastic(t *testing.T) {
	p := cadence
	p.UpdateInterval, p.DecayAfter, p.GCAfter = 3*s, 6*s, 30*s // as the host reports
	for _, parent := range []bool{false, true} {
		for _, every := range []time.Duration{2 * s, 4 * s, 5 * s, 10 * s, 14 * s} {
			rule := dynamicconfig.Rule{Limit: 100, Burst: 100, Algorithm: algorithm.NameFairShare, Learning: dynamicconfig.None}
			above := leased(t, rule)
			rule.Algorithm, rule.Parent = algorithm.NameElastic, parent
			a := New(algorithm.Builtin(), snapshot(t, p, terms(rule)))
			events, refused, allowed, rejected, tokens, burst, weight := 0, 0, int64(0), int64(0), 1.0, 1.0, 0.0
			for now := time.Duration(0); now < 600*s; now += s / 10 {
				tokens = max(min(tokens+weight*100/10, burst), min(tokens, burst))
				if now%every == 0 {
					if events++; tokens >= 1 {
						tokens--
						allowed++
					} else {
						refused++
						rejected++
					}
				}
				if now%(3*s) == s/2 {
					u := reportOf(algorithm.NameElastic, allowed, rejected, 3*s, "k")
					u.Weight[0] = weight
					u.Wants = []float64{float64(allowed+rejected) / 3}
					if g := step(t, a, now, "h", u); g.Lease[0] > 0 {
						tokens, burst, weight = g.Tokens[0], g.Burst[0], g.Weight[0]
					}
					allowed, rejected = 0, 0
					a.GC(now)
					above.GC(now)
				}
				if asked := a.Parent().Ask(now, "region"); asked != nil {
					a.Parent().Hear(now, asked, above.Claim(now, asked), nil)
				}
			}
			if refused > events/10 {
				t.Errorf("parent %v: of %d events, one in %v, under a limit of 100/s, %d are refused", parent, events, every, refused)
			}
		}
	}
}

// Other rules change while a key below a parent is not used. What its cluster has saved for the next
// event stays.
func TestAChangeOfOtherRulesLeavesWhatAPoolBelowAParentHas(t *testing.T) {
	for _, name := range []string{algorithm.NameElastic, algorithm.NameAuto} {
		rule := dynamicconfig.Rule{Key: "*", Algorithm: name, Limit: 1000, Burst: 100, Lease: 60 * s, Refresh: 8 * s, Parent: true, Learning: dynamicconfig.None}
		a := leased(t, rule)
		u := reportOf(name, 50, 0, s, "k")
		u.Cost = []float64{50}
		step(t, a, s, "h", u)
		answered(t, a, s, lease(10)) // of 1,000
		step(t, a, s, "h", reportOf(name, 0, 0, s, "k"))
		tokens := func(now time.Duration) float64 {
			k := known(a, name, "k")
			return k.State(now).Tokens
		}
		for now := 2 * s; now < 6*s; now += s {
			a.GC(now)
		}
		before := tokens(6 * s)
		configured(t, a, 6*s, rule, dynamicconfig.Rule{Key: "other", Limit: 1})
		a.GC(6 * s)
		if after := tokens(6 * s); after < before {
			t.Errorf("%s: the pool has %v tokens, and had %v", name, after, before)
		}
	}
}
