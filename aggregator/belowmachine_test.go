// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// Two clusters share a limit that a cluster above leases to them, under exact or auto. Their hosts
// ask for events of any cost, the cluster above falls silent for a while or answers late, owners
// move with and without a hand-over, and hosts come and go. In each window, the events that pass
// are no more than the limit, a burst, two events for each cluster, and a burst for each owner that
// is new. Once nothing fails any more, a steady demand that is within the limit is served.
func TestTwoClustersBelowAParentShareItsLimit(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		limit := rapid.SampledFrom([]float64{5, 20, 100, 1000}).Draw(t, "limit")
		burst := limit * rapid.SampledFrom([]float64{0.5, 1, 3}).Draw(t, "burst in seconds")
		name := rapid.SampledFrom([]string{algorithm.NameExact, algorithm.NameAuto}).Draw(t, "algorithm")
		auto := name == algorithm.NameAuto
		top := dynamicconfig.Rule{Limit: rate.Limit(limit), Burst: burst, Algorithm: algorithm.NameFairShare, Learning: dynamicconfig.None, Fallback: dynamicconfig.FallbackClosed}
		rule := top
		rule.Algorithm, rule.Parent = name, true
		rule.MaxDebt = rapid.SampledFrom([]time.Duration{0, 10 * s}).Draw(t, "max_debt")
		above := leased(tb, top)
		type late struct {
			at     time.Duration
			asked  *claims.Claims
			leases *claims.Leases
		}
		type cluster struct {
			name    string
			a       *Aggregator
			wants   float64
			cost    float64
			told    usage.Take
			asked   float64 // since the last report
			due     float64 // tokens that its host wants by now
			answers []late
			offered float64
			passed  float64
		}
		clusters := []*cluster{{name: "a", a: leased(tb, rule)}, {name: "b", a: leased(tb, rule)}}
		over, most, allowance, now, gone, slow := 0.0, 0.0, burst, time.Duration(0), time.Duration(0), time.Duration(0)
		largest, trace := 1.0, ""
		pass := func(d time.Duration) {
			for end := now + d; now < end; now += s / 10 {
				over = max(over-limit/10, 0)
				for _, c := range clusters {
					for c.due += c.wants / 10; c.due >= c.cost && c.cost > 0; c.due -= c.cost {
						t := usage.Take{Tokens: c.cost, Auto: auto, By: c.told.By, Told: c.told.Told, Ago: now - c.told.Ago, Key: "k"}
						if c.told.By == 0 {
							t.Ago = 0
						}
						c.asked += c.cost
						c.offered += c.cost
						taken := new(usage.Taken)
						c.a.Take(now, "h", &usage.Takes{Rows: []usage.Take{t}}, taken)
						if got := taken.Rows[0]; got.Decided {
							c.told = usage.Take{By: taken.By, Told: got.Left, Ago: now}
							if got.OK && got.Wait == 0 {
								over += c.cost
								c.passed += c.cost
								most = max(most, over)
							}
						}
					}
					if now%(3*s) == 0 {
						if auto && c.asked > 0 {
							step(tb, c.a, now, "h", reportOf(name, 0, int64(c.asked), 3*s, "k"))
						}
						c.asked = 0
						c.a.GC(now)
						above.GC(now)
					}
					if asked := c.a.Parent().Ask(now, c.name); asked != nil {
						var leases *claims.Leases
						if now >= gone {
							leases = above.Claim(now, asked)
						}
						c.answers = append(c.answers, late{now + slow, asked, leases})
					}
					for len(c.answers) > 0 && c.answers[0].at <= now {
						c.a.Parent().Hear(now, c.answers[0].asked, c.answers[0].leases, nil)
						c.answers = c.answers[1:]
					}
				}
			}
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			c := rapid.SampledFrom(clusters).Draw(t, "cluster")
			what := rapid.SampledFrom([]string{"pass", "wants", "gone", "slow", "moves", "dies", "rule"}).Draw(t, "what")
			switch what {
			case "wants":
				c.wants = limit * rapid.SampledFrom([]float64{0, 0.003, 0.05, 0.5, 1, 10}).Draw(t, "wants")
				c.cost = min(rapid.SampledFrom([]float64{1, 2, 7, 30}).Draw(t, "cost"), max(burst/15, 1))
				largest = max(largest, c.cost)
				what = fmt.Sprint(what, " ", c.wants, " of ", c.cost)
			case "gone":
				gone = now + rapid.SampledFrom([]time.Duration{s, 20 * s, 90 * s}).Draw(t, "for")
			case "slow":
				slow = rapid.SampledFrom([]time.Duration{0, s / 2, 3 * s}).Draw(t, "by")
			case "rule": // of both clusters, which go on with what there is
				if name = algorithm.NameAuto; auto {
					name = algorithm.NameExact
				}
				auto, rule.Algorithm = !auto, name
				for _, c := range clusters {
					if err := c.a.Configure(snapshot(tb, cadence, terms(rule))); err != nil {
						t.Fatal(err)
					}
				}
			case "moves", "dies":
				before := c.a
				c.a = leased(tb, rule)
				c.a.Moved(now)
				if what == "moves" {
					rows := before.keys.Buckets(now, before.number, func(string) bool { return true })
					c.a.Take(now, "", &usage.Takes{Rows: rows}, new(usage.Taken))
				}
				c.answers = nil
				allowance += burst
			}
			trace += fmt.Sprintf("\n%v %s: %s", now, c.name, what)
			pass(rapid.SampledFrom([]time.Duration{s, 5 * s, 30 * s}).Draw(t, "time"))
		}
		if most > allowance+6*largest+1 {
			t.Errorf("under %s of %v/s, burst %v, %v more than the limit passed, at most %v, with events of up to %v:%s", name, limit, burst, most, allowance, largest, trace)
		}
		gone, slow = now, 0
		clusters[0].wants, clusters[1].wants = 0.3*limit, 0.4*limit
		clusters[0].cost, clusters[1].cost = 1, 1
		pass(120 * s)
		for _, c := range clusters {
			c.offered, c.passed = 0, 0
		}
		pass(60 * s)
		for _, c := range clusters {
			if !auto && c.passed < 0.9*c.offered {
				t.Errorf("under %s of %v/s, burst %v, cluster %s is served %v of %v:%s", name, limit, burst, c.name, c.passed, c.offered, trace)
			}
		}
	})
}
