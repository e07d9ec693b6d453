// SPDX-License-Identifier: Apache-2.0

package average

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// under is what an account whose parts weigher makes must know.
func under(w algorithm.Weigher) *account.Config {
	a := account.Average{Weight: 0.1, Interval: time.Second, DecayAfter: 2 * time.Second, GCAfter: 10 * time.Second}
	return &account.Config{
		Settings:  &account.Settings{Average: a, Stages: a.Stages(), Interval: a.Interval},
		Rule:      &dynamicconfig.Rule{Limit: 100, Burst: 50},
		Algorithm: algorithm.Algorithm{Account: algorithm.AccountAverage, Weigher: w},
	}
}

// reporting is a new account of which each host reports rates once, at 0.
func reporting(w algorithm.Weigher, limit algorithm.Limit, rates ...account.Rates) *Account {
	a, _ := New(0, 0, under(w)).(*Account)
	for host, r := range rates {
		a.Report(0, limit, uint32(host), &account.Report{Rates: r, Elapsed: time.Second})
	}
	return a
}

// again is what host gets when it reports the same once more.
func again(a *Account, limit algorithm.Limit, host uint32, r account.Rates) account.Grant {
	g, _ := a.Report(0, limit, host, &account.Report{Rates: r, Elapsed: time.Second})
	return g
}

func TestGrantsFollowDemand(t *testing.T) {
	byDemand := algorithm.Weigher{Weigh: algorithm.RequestWeighted, Form: algorithm.FormDemand, Floor: algorithm.FloorUnused}
	gate := byDemand
	gate.Floor = algorithm.FloorDrop
	limit := algorithm.Limit{Rate: 100, Burst: 50}
	for _, tt := range []struct {
		name  string
		by    algorithm.Weigher
		rates []account.Rates
		want  []account.Grant
	}{
		{"alone", byDemand, []account.Rates{{Allowed: 3, Rejected: 1}}, []account.Grant{{Weight: 1, Burst: 50, Used: 3}}},
		{"rejected count as much as allowed", byDemand, []account.Rates{{Allowed: 1, Rejected: 1}, {Allowed: 2}}, []account.Grant{{Weight: .5, Burst: 25, Used: 3}, {Weight: .5, Burst: 25, Used: 3}}},
		{"by load", byDemand, []account.Rates{{Allowed: 90, Rejected: 810}, {Allowed: 50}, {Allowed: 50}}, []account.Grant{{Weight: .9, Burst: 45, Used: 190}, {Weight: .05, Burst: 2.5, Used: 190}, {Weight: .05, Burst: 2.5, Used: 190}}},
		{"a gate below the limit", gate, []account.Rates{{Allowed: 50}, {Allowed: 10}}, []account.Grant{{Weight: 1, Burst: 50, Used: 60}, {Weight: 1, Burst: 50, Used: 60}}},
		{"a gate above it", gate, []account.Rates{{Allowed: 100, Rejected: 50}, {Rejected: 50}}, []account.Grant{{Weight: .5, Burst: 50, Used: 100}, {Weight: .5, Burst: 50, Used: 100}}},
	} {
		a := reporting(tt.by, limit, tt.rates...)
		for host, r := range tt.rates {
			if g, want := again(a, limit, uint32(host), r), tt.want[host]; !near(g.Weight, want.Weight) || !near(g.Burst, want.Burst) || !near(g.Used, want.Used) {
				t.Errorf("%s: host %d gets %+v, want %+v", tt.name, host, g, want)
			}
		}
	}
}

// The grant that a form computes for one host is the one that its Weigh makes.
func TestTheFormIsTheWeigh(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(1e-3, 1e6), rapid.Float64Range(1e-3, 1))
		rates := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) account.Rates {
			return account.Rates{Allowed: amount.Draw(t, "allowed"), Rejected: amount.Draw(t, "rejected")}
		}), 1, 50).Draw(t, "rates")
		limit := algorithm.Limit{Rate: rapid.Float64Range(1e-3, 1e6).Draw(t, "rate"), Burst: 50}
		w := algorithm.Weigher{Weigh: algorithm.RequestWeighted, Form: algorithm.FormDemand}
		quick := reporting(w, limit, rates...)
		w.Form = algorithm.FormPlain
		plain, sum := reporting(w, limit, rates...), 0.0
		plain.kept.Divide(-time.Hour, 0) // forgets what was weighed on the way
		for host, r := range rates {
			q, p := again(quick, limit, uint32(host), r), again(plain, limit, uint32(host), r)
			if !near(q.Weight, p.Weight) || !near(q.Burst, p.Burst) || !(q.Weight >= 0 && q.Weight <= 1) {
				t.Fatalf("host %d of %v: %+v, weighed %+v", host, rates, q, p)
			}
			sum += q.Weight
		}
		if sum > 1+1e-9 {
			t.Fatalf("weights sum to %v", sum)
		}
	})
}

// The cost of a report must not depend on how many hosts use the key. Every row
// that this report has no business with is poisoned: to look at one is to answer
// nonsense.
func TestAReportLooksAtNoOtherHost(t *testing.T) {
	const hosts = 1000
	rates := make([]account.Rates, hosts)
	for i := range rates {
		rates[i].Allowed = 1
	}
	limit := algorithm.Limit{Rate: 100, Burst: 50}
	a := reporting(algorithm.Weigher{Form: algorithm.FormDemand}, limit, rates...)
	for i := range a.ledger.rows.All {
		if i != 500 {
			a.ledger.rows.At(i).demand = account.Rates{Allowed: math.NaN(), Rejected: math.NaN()}
		}
	}
	if g := again(a, limit, 500, rates[500]); !near(g.Used, hosts) || !near(g.Weight, 1.0/hosts) {
		t.Errorf("used %v, weight %v", g.Used, g.Weight)
	}
	if g := again(a, limit, hosts, account.Rates{}); !near(g.Used, hosts) || g.Weight != 0 {
		t.Errorf("who only asks: used %v, weight %v", g.Used, g.Weight)
	}
}

// A Weigh sees who hosts are, and what they have.
func TestAWeighSeesWhoHostsAre(t *testing.T) {
	var seen []algorithm.Demand
	c := under(algorithm.Weigher{Weigh: func(capacity float64, demands []algorithm.Demand, parts []float64) {
		seen = demands
		for i := range parts {
			parts[i] = capacity / float64(len(parts))
		}
	}})
	c.Member = func(host uint32) account.Member {
		return account.Member{Name: fmt.Sprint("host", host), Labels: algorithm.NewLabels(map[string]string{"zone": fmt.Sprint(host % 2)})}
	}
	a := New(0, 0, c)
	limit := algorithm.Limit{Rate: 100, Burst: 50}
	for round := range time.Duration(3) {
		for host := range uint32(2) {
			a.Report(round*time.Second, limit, host, &account.Report{Rates: account.Rates{Allowed: float64(host + 1)}, Elapsed: time.Second})
		}
	}
	for _, d := range seen {
		host := int(d.Host[4] - '0')
		if d.Labels.Get("zone") != fmt.Sprint(host%2) || !near(d.Wants, float64(host+1)) || d.Has != 0.5 || d.Clients != 1 {
			t.Errorf("%+v", d)
		}
	}
	if len(seen) != 2 {
		t.Errorf("it saw %+v", seen)
	}
}

// A host with a grant of an earlier owner has all hosts keep what they have only if it is the first one
// here: who comes with a grant later is told its part.
func TestAHostThatComesLaterBeginsNoLearning(t *testing.T) {
	c := under(algorithm.Weigher{Weigh: algorithm.RequestWeighted, Form: algorithm.FormDemand})
	c.Rule.Learning = time.Minute
	a, limit := New(0, -time.Hour, c), algorithm.Limit{Rate: 100, Burst: 50}
	report := func(host uint32) (r account.Report) {
		r = account.Report{Rates: account.Rates{Allowed: 10}, Elapsed: time.Second, Has: 0.9}
		a.Report(0, limit, host, &r)
		return r
	}
	a.Report(0, limit, 1, &account.Report{Rates: account.Rates{Allowed: 10}, Elapsed: time.Second})
	if r := report(2); r.Keeps {
		t.Error("the second host keeps what an earlier owner gave it")
	}
	if r := report(1); r.Keeps {
		t.Error("the first host keeps what it has, because another came")
	}
}

// Hosts that name another algorithm have a sum of their own. So it is after the intervals have changed, and
// what they use comes off every weigher's parts.
func TestHostsAwayStayAway(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 50}
	for name, w := range map[string]algorithm.Weigher{
		"by demand": {Weigh: algorithm.RequestWeighted, Form: algorithm.FormDemand},
		"plainly":   {Weigh: algorithm.RequestWeighted},
	} {
		c := under(w)
		a := New(0, 0, c)
		own := account.Report{Rates: account.Rates{Allowed: 100}, Elapsed: time.Second}
		a.Report(0, limit, 1, &own)
		a.Report(0, limit, 2, &account.Report{Rates: account.Rates{Allowed: 40}, Elapsed: time.Second, Elsewhere: true})
		for _, interval := range []time.Duration{time.Second, 2 * time.Second} {
			c.Settings = &account.Settings{Average: c.Average, Interval: interval}
			c.Average.Interval = interval
			c.Stages = c.Average.Stages()
			a.Configure(0, c)
			if g, ok := a.Report(0, limit, 1, &own); !ok || !near(g.Weight, 0.6) {
				t.Errorf("%s, an interval of %v: beside a host away that uses 40 of 100/s, the other is granted %+v", name, interval, g)
			}
		}
	}
}
