// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// The rule may change in any way after tokens were taken into a debt. When all of them are given
// back at once, there is no more than a burst for others.
func TestWhatIsGivenBackIsNoMoreThanABurst(t *testing.T) {
	algorithms := []string{"even", "request-weighted", "elastic"}
	modes := []dynamicconfig.Mode{dynamicconfig.ModeOld, dynamicconfig.ModeOldShadowNew, dynamicconfig.ModeNewShadowOld, dynamicconfig.ModeNew}
	rapid.Check(t, func(rt *rapid.T) {
		const burst = 20
		now, migrates := stage.Now(), rapid.Bool().Draw(rt, "migrates")
		most := burst + 1.0 // an event may borrow where there is no debt
		draw := func() *dynamicconfig.Snapshot {
			r := dynamicconfig.Rule{
				Key: "k", Limit: pick[rate.Limit](rt, "limit", 0.01, 0.1, 1), Burst: burst, IdleAfter: time.Hour,
				MaxDebt: pick(rt, "max_debt", 0, time.Minute), MaxCost: burst,
			}
			r.Algorithm = pick(rt, "algorithm", algorithms...)
			if to := pick(rt, "to", algorithms...); migrates && to != r.Algorithm {
				r.Migration = &dynamicconfig.Migration{From: r.Algorithm, To: to, Mode: pick(rt, "mode", modes...)}
				r.Algorithm = ""
			}
			return snapshotOf(rt, r, dynamicconfig.Override{})
		}
		g := limiter.NewGroup(draw(), 1, limiter.WithSeed(1), limiter.WithMigration(shadow.Migrator()), limiter.WithBackground(func(f func()) { f() }))
		k := g.For("k").Stage()
		var open []stage.Receipt
		take := func(n int64, longest time.Duration) stage.Verdict {
			v, receipt := k.Take(context.Background(), stage.Request{Now: now, N: n, Longest: longest})
			if longest > 0 && v.OK() {
				open = append(open, receipt)
			}
			return v
		}
		rt.Repeat(map[string]func(*rapid.T){
			"reserve": func(rt *rapid.T) {
				for range pick(rt, "times", 1, 30) {
					take(pick[int64](rt, "n", 1, 20), stage.Forever)
				}
			},
			"configure": func(*rapid.T) { g.Manual().Configure(now, draw()) },
			"hosts":     func(rt *rapid.T) { g.Manual().SetHosts(now, pick(rt, "hosts", 1, 2, 10)) },
			"reset": func(*rapid.T) {
				_ = g.Reset(context.Background(), "k")
				most += burst
			},
			"report": func(rt *rapid.T) {
				for _, b := range g.Manual().Report(now) {
					grants := grantOf(b.Usage.Len(), pick(rt, "weight", 1, 0.1), burst, pick(rt, "lease", time.Second, time.Hour))
					if err := g.Manual().Apply(now, b, nil, grants); err != nil {
						rt.Fatal(err)
					}
				}
			},
			"time": func(rt *rapid.T) {
				passed := pick(rt, "time", time.Millisecond, time.Second, 3*time.Second)
				now, most = now.Add(passed), most+passed.Seconds()
			},
			"settle": func(rt *rapid.T) {
				if len(open) > 0 {
					k.Settle(now, open[0], 0)
					open = open[1:]
				}
			},
		})
		for take(1, 0).OK() {
		}
		got := 0
		for i := range open {
			k.Settle(now, open[len(open)-1-i], 0)
			for take(1, 0).OK() {
				got++
			}
		}
		if l := k.Level(now); float64(got) > most {
			rt.Fatalf("%d events at once of %d reservations, want at most %v, now at %+v", got, len(open), most, l)
		}
	})
}
