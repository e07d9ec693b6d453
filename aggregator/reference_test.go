// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// perfect is one bucket, from which all takes are made, and nothing else.
type perfect struct {
	level float64
	at    time.Duration
	rule  dynamicconfig.Rule
}

// pass brings b up to now.
func (b *perfect) pass(now time.Duration) {
	b.level, b.at = min(b.level+float64(b.rule.Limit)*max(now-b.at, 0).Seconds(), b.rule.Burst), max(now, b.at)
}

// follow puts rule in force at now. A debt that is deeper than charges may make becomes less with
// the limit and the burst.
func (b *perfect) follow(now time.Duration, rule dynamicconfig.Rule) {
	b.pass(now)
	less := min(float64(rule.Limit/b.rule.Limit), rule.Burst/b.rule.Burst, 1)
	b.level = max(b.level, min(b.level*less, -rule.MostDebt()))
	b.rule = rule
	b.level = min(b.level, rule.Burst)
}

// Hosts report, ask and give back at random, under rules that change, and some of it is absurd.
// No owner ever has more tokens than one perfect bucket and what its algorithm states as the
// bound. Hosts that ask for each event never get more than one bucket gives.
func TestAnOwnerHasNoMoreThanAPerfectBucket(outer *testing.T) {
	amounts := rapid.SampledFrom([]float64{0, 0.5, 1, 3, 20, 100, 1e6, 1 << 53})
	rapid.Check(outer, func(t *rapid.T) {
		names := rapid.SampledFrom([][]string{{algorithm.NameExact}, {algorithm.NameAuto}, {algorithm.NameElastic}, {algorithm.NameAuto, algorithm.NameExact}, {algorithm.NameElastic, algorithm.NameExact}}).Draw(t, "names")
		draw := func() dynamicconfig.Rule {
			return dynamicconfig.Rule{
				Key: "*", Limit: rate.Limit(rapid.SampledFrom([]float64{1e-3, 1, 100}).Draw(t, "limit")), Burst: rapid.SampledFrom([]float64{1, 30, 1000}).Draw(t, "burst"),
				Algorithm: rapid.SampledFrom(names).Draw(t, "algorithm"), Lease: 10 * time.Second, MaxDebt: time.Duration(rapid.IntRange(0, 3).Draw(t, "debt")) * time.Second,
			}
		}
		rule := draw()
		a := under(outer, rule)
		b := perfect{level: rule.Burst, rule: rule}
		now, held := time.Duration(0), 0.0 // what hosts held when rules changed
		hears := func() {                  // the owner looks at the key
			took(outer, a, now, usage.Take{Auto: rule.Algorithm == algorithm.NameAuto})
			step(outer, a, now, "h3", reportOf(rule.Algorithm, 0, 0, time.Second, "k"))
		}
		heard := true
		t.Repeat(map[string]func(*rapid.T){
			"time": func(t *rapid.T) {
				now += rapid.SampledFrom([]time.Duration{1, time.Millisecond, time.Second, 3 * time.Second}).Draw(t, "for")
			},
			"a minute": func(*rapid.T) {
				a.Split(now, 1, 0) // a key that is new in a split is full
				for range 60 {
					now += cadence.UpdateInterval
					a.GC(now)
				}
			},
			"changes": func(t *rapid.T) {
				hears() // of a rule that comes and goes between two looks at the key, an owner does not know
				rule, heard = draw(), false
				a.Core.Configure(now, snapshot(outer, cadence, rule))
				earlier := b.rule
				b.follow(now, rule)
				if known := a.Look(now, "k"); len(known) == 0 { // a key that is forgotten is full
					b.level = rule.Burst
				} else {
					holds := float64(earlier.Limit) * algorithm.Silence * cadence.UpdateInterval.Seconds()
					for _, host := range known[0].Hosts {
						holds += host.Lent
					}
					held = max(held, holds)
				}
			},
			"hears": func(*rapid.T) {
				hears()
				heard = true
			},
			"sweeps": func(*rapid.T) {
				a.Split(now, 1, 0)
				a.GC(now)
			},
			"splits": func(t *rapid.T) { a.Split(now, 1, rapid.IntRange(0, 2).Draw(t, "missing")) },
			"reports": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "named")
				u := reportOf(name, int64(amounts.Draw(t, "allowed")), int64(amounts.Draw(t, "rejected")), time.Second, "k")
				u.Weight[0] = rapid.SampledFrom([]float64{0, 0, 0.5, 1}).Draw(t, "has")
				var g usage.Grants
				if err := a.Step(now, rapid.SampledFrom([]string{"h0", "h1", "h2"}).Draw(t, "host"), u, &g); err != nil {
					t.Fatal(err)
				}
			},
			"takes": func(t *rapid.T) {
				take := usage.Take{
					Key: "k", Auto: rapid.SampledFrom(names).Draw(t, "named") == algorithm.NameAuto, Tokens: amounts.Draw(t, "tokens"), Longest: rapid.SampledFrom([]time.Duration{0, time.Second, -1}).Draw(t, "longest"),
					Spent: rapid.SampledFrom([]usage.Spent{0, 0, 0, 1, 2}).Draw(t, "spent"), More: amounts.Draw(t, "more"), Wants: amounts.Draw(t, "wants"),
				}
				if rapid.IntRange(0, 4).Draw(t, "gives") == 0 {
					take.Tokens *= -1
				}
				if rapid.IntRange(0, 4).Draw(t, "told") == 0 {
					take.By, take.Told, take.Ago = a.number+1, amounts.Draw(t, "told tokens")-amounts.Draw(t, "owed"), time.Second
				}
				takes, taken := &usage.Takes{Rows: []usage.Take{take}}, new(usage.Taken)
				if takes.Check() != nil {
					return
				}
				a.Take(now, rapid.SampledFrom([]string{"h0", "h1", "h2"}).Draw(t, "host"), takes, taken)
				b.pass(now)
				b.level = min(b.level-takes.Rows[0].Tokens, b.rule.Burst)
			},
			"": func(t *rapid.T) {
				if b.pass(now); !heard {
					return
				}
				for _, k := range a.Look(now, "k") {
					bound := 0.0
					if len(names) > 1 || names[0] != algorithm.NameExact {
						bound = k.Bound + 0.75*b.rule.Burst + held
					}
					if most := b.level + bound; k.Tokens+k.Lent > most+1e-6*math.Max(math.Abs(most), b.rule.Burst) {
						t.Fatalf("%s: %v tokens and %v lent; one bucket has %v, and the bound is %v", k.Algorithm, k.Tokens, k.Lent, b.level, bound)
					}
				}
			},
		})
	})
}
