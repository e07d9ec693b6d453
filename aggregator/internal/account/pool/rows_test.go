// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// Whatever hosts report and ask, and however the rule changes, the sums of a pool are those of its rows,
// and hosts hold no more of the limit than there is.
func TestTheSumsAreThoseOfTheRows(t *testing.T) {
	amounts := rapid.SampledFrom([]float64{0, 0.1, 1, 3, 10, 99, 1000, 1e6})
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{algorithm.NameElastic, algorithm.NameAuto, algorithm.NameExact})
		c := reaching(names.Draw(t, "algorithm"))
		rule := &dynamicconfig.Rule{Limit: 100, Burst: 50, Lease: 10 * s}
		c.Rule = rule
		now, part := time.Duration(0), 1.0
		k, _ := New(now, rapid.SampledFrom([]time.Duration{-time.Hour, 0}).Draw(t, "moved"), c).(account.Pooled)
		limit := func() algorithm.Limit {
			return algorithm.Limit{Rate: part * float64(rule.Limit), Burst: math.Max(part*rule.Burst, 1)}
		}
		host := func() uint32 { return uint32(rapid.IntRange(0, 11).Draw(t, "host")) }
		configure := func() {
			next := *c
			next.Rule = rule
			c = &next
			k.Configure(now, c)
		}
		t.Repeat(map[string]func(*rapid.T){
			"report": func(t *rapid.T) {
				r := &account.Report{
					Allowed: amounts.Draw(t, "allowed"), Elapsed: rapid.SampledFrom([]time.Duration{1, s, 3 * s}).Draw(t, "elapsed"), Wants: amounts.Draw(t, "wants"),
					Cost: rapid.SampledFrom([]float64{1, 5, 1e9}).Draw(t, "cost"), Has: rapid.SampledFrom([]float64{0, 0, 0.1, 0.5, 1}).Draw(t, "has"),
					Lease: 10 * s, Elsewhere: rapid.IntRange(0, 3).Draw(t, "elsewhere") == 0,
				}
				r.Rates = account.Rates{Allowed: r.Allowed / max(r.Elapsed.Seconds(), 1)}
				k.Expire(now, func(uint32) {})
				h := host()
				k.Fetch(now, h, int32(rapid.IntRange(-1, 5).Draw(t, "guess")), func(uint32) {})
				if g, ok := k.Report(now, limit(), h, r); ok && (!account.Valid(g.Weight) || !(g.Tokens >= 0 && g.Burst >= 0 && g.Used >= 0)) {
					t.Fatalf("granted %+v", g)
				}
			},
			"take": func(t *rapid.T) {
				take := &usage.Take{
					Key: "k", Auto: rapid.Bool().Draw(t, "auto"), Tokens: rapid.SampledFrom([]float64{-5, 0, 1, 1, 3, 40, 1e6}).Draw(t, "tokens"),
					More: rapid.SampledFrom([]float64{0, 0.5, 5, 100}).Draw(t, "more"), Wants: amounts.Draw(t, "wants now"),
					Spent: rapid.SampledFrom([]usage.Spent{usage.SpentNot, usage.SpentNot, usage.SpentBeyond, usage.SpentApart}).Draw(t, "spent"),
					By:    uint32(rapid.IntRange(0, 2).Draw(t, "by")), Told: rapid.Float64Range(-50, 50).Draw(t, "told"), Ago: s,
					Handed: rapid.IntRange(0, 9).Draw(t, "handed") == 0, Rates: 0.5,
				}
				if take.By == 0 {
					take.Handed = false
				}
				more := take.More
				if took := k.Take(now, limit(), take, 1, host()); !(took.Lent >= 0 && took.Lent <= more) || math.IsNaN(took.Left) {
					t.Fatalf("took %+v", took)
				}
			},
			"pass": func(t *rapid.T) {
				now += rapid.SampledFrom([]time.Duration{s / 10, s, 3 * s, 6 * s, 40 * s}).Draw(t, "passes")
			},
			"expire": func(*rapid.T) { k.Expire(now, func(uint32) {}) },
			"trim":   func(*rapid.T) { k.Trim(now, func(uint32) {}) },
			"reach": func(t *rapid.T) {
				next := reaching(names.Draw(t, "algorithm"))
				if next.Rule = rule; next.Algorithm.Reach != k.Reached() {
					c = next
					k = k.Reach(now, c)
					k.Configure(now, c)
				}
			},
			"limit": func(t *rapid.T) {
				next := *rule
				next.Limit, next.Burst = rapid.SampledFrom([]rate.Limit{0, 1, 100, 1e6}).Draw(t, "limit"), rapid.SampledFrom([]float64{1, 50, 1e4}).Draw(t, "burst")
				rule = &next
				configure()
			},
			"part": func(t *rapid.T) { part = rapid.SampledFrom([]float64{0, 0.1, 0.5, 1}).Draw(t, "part") },
			"interval": func(t *rapid.T) {
				settings := *c.Settings
				settings.Interval = rapid.SampledFrom([]time.Duration{s, 3 * s, 10 * s}).Draw(t, "interval")
				next := *c
				next.Settings = &settings
				c = &next
				k.Configure(now, c)
			},
			"": func(t *rapid.T) {
				p := plain(k)
				lent, starters, wants, parts, alone, users := 0.0, 0.0, 0.0, 0.0, int64(0), int32(0)
				for _, r := range p.rows.All {
					lent, starters, wants, parts = lent+float64(r.out()), starters+float64(r.starter()), wants+float64(r.wants), parts+r.weight
					alone += int64(r.alone)
					if r.wants > 0 {
						users++
					}
				}
				if p.lent != lent || p.starters != starters || !near(p.wants, wants) || p.users != users || !near(p.parts.Value(), parts) {
					t.Fatalf("sums %+v; rows have lent %v, starters %v, wants %v of %d, parts %v", p.sums, lent, starters, wants, users, parts)
				}
				if parts > 1+1e-9 {
					t.Fatalf("hosts hold %v of the limit", parts)
				}
				if a, ok := k.(*asked); ok && a.alone != alone {
					t.Fatalf("alone %d, and rows %d", a.alone, alone)
				}
				if math.IsNaN(p.pool) || math.IsInf(p.pool, 0) {
					t.Fatalf("the pool is %v", p.pool)
				}
			},
		})
	})
}
