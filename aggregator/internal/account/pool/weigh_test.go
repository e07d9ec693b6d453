// SPDX-License-Identifier: Apache-2.0

package pool

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

// made is the account of a new key under the algorithm called name.
func made(name string) account.Account {
	a, err := algorithm.Builtin().Lookup(name)
	if err != nil {
		panic(err)
	}
	return New(0, 0, under(a))
}

// weighing is the account of a new key that weigh divides.
func weighing(weigh algorithm.Weigh) account.Account {
	return New(0, 0, under(algorithm.Algorithm{Weigher: algorithm.Weigher{Weigh: weigh}}))
}

// under is what an account must know under a.
func under(a algorithm.Algorithm) *account.Config {
	return &account.Config{Settings: &account.Settings{Interval: interval}, Rule: new(dynamicconfig.Rule), Algorithm: a}
}

// A weighing in proportion to demand is Elastic, to the last digit where hosts are
// weighed in each report.
func TestWeighingByDemandIsElastic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain, weighed := made(algorithm.NameElastic), weighing(algorithm.RequestWeighted)
		limit := algorithm.Limit{Rate: rapid.Float64Range(1, 1000).Draw(t, "rate"), Burst: rapid.Float64Range(1, 1000).Draw(t, "burst")}
		now := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "reports") {
			now += interval / account.Parted
			host := uint32(rapid.IntRange(0, 5).Draw(t, "host"))
			r := account.Report{Allowed: rapid.Float64Range(0, 100).Draw(t, "allowed"), Elapsed: interval, Wants: rapid.Float64Range(0, 500).Draw(t, "wants")}
			p, okP := plain.Report(now, limit, host, &r)
			w, okW := weighed.Report(now, limit, host, &r)
			if okP != okW || math.Abs(p.Weight-w.Weight) > 1e-9 || math.Abs(p.Tokens-w.Tokens) > 1e-6*limit.Burst {
				t.Fatalf("at %v host %d: elastic %+v, weighed %+v", now, host, p, w)
			}
		}
	})
}

// Hosts get the limit once, also if a Weigh gives them more than there is.
func TestAWeighThatHandsOutTooMuchIsScaled(t *testing.T) {
	k := weighing(func(capacity float64, demands []algorithm.Demand, parts []float64) {
		for i := range demands {
			parts[i] = capacity
		}
	})
	limit, sum := algorithm.Limit{Rate: 100, Burst: 100}, 0.0
	for now := time.Duration(0); now < 20*interval; now += interval {
		sum = 0
		for host := range uint32(5) {
			g, _ := k.Report(now+time.Duration(host), limit, host, &account.Report{Elapsed: interval, Wants: 100})
			sum += g.Weight
		}
	}
	if sum < 0.9 || sum > 1.02 {
		t.Errorf("weights sum to %v", sum)
	}
}

// A pass over all hosts is made a few times in an interval, however many report.
func TestWeighingCostsLittlePerHost(t *testing.T) {
	rows := 0
	k := weighing(func(capacity float64, demands []algorithm.Demand, parts []float64) {
		rows += len(demands)
		algorithm.RequestWeighted(capacity, demands, parts)
	})
	const hosts, rounds = 2000, 5
	for i := range hosts * rounds {
		now := time.Duration(i) * interval / hosts
		k.Report(now, algorithm.Limit{Rate: 1000, Burst: 1000}, uint32(i%hosts), &account.Report{Elapsed: interval, Wants: 1})
	}
	if each := float64(rows) / (hosts * rounds); each > account.Parted+4 {
		t.Errorf("%.1f hosts are weighed for each report", each)
	}
}

// A host that joins many others is not weighed before the next time that all are. Until then
// it keeps its fallback, however often it asks, and then it has its part.
func TestAHostThatIsNotWeighedYetKeepsItsFallback(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	k, now := weighing(algorithm.RequestWeighted), interval
	report := func(host uint32, wants float64) (account.Grant, bool) {
		k.Expire(now, func(uint32) {})
		return k.Report(now, limit, host, &account.Report{Elapsed: interval, Wants: wants, Cost: 1})
	}
	for ; now < 3*interval; now += interval / 2 {
		for host := range uint32(100) {
			report(host, 5)
		}
	}
	report(0, 5) // weighs all
	for range 2 {
		now += interval / account.Parted / 4
		if g, ok := report(100, 100); ok {
			t.Errorf("before it is weighed, it is granted %+v", g)
		}
	}
	now += interval / account.Parted
	if g, ok := report(100, 100); !ok || g.Weight < 0.05 {
		t.Errorf("once it is weighed, it is granted %+v", g)
	}
}

// A host that wants next to nothing gets a grant too.
func TestAHostThatWantsNextToNothingGetsAGrant(t *testing.T) {
	k := weighing(algorithm.RequestWeighted)
	for now := time.Duration(0); now < 3*interval; now += interval {
		if _, ok := k.Report(now, algorithm.Limit{Rate: 1, Burst: 1}, uint32(now/interval), &account.Report{Elapsed: interval, Wants: 1e-46}); !ok && now > learning {
			t.Errorf("at %v there is no grant", now)
		}
	}
}

// A Weigh sees who the hosts are.
func TestAWeighSeesNamesAndLabels(t *testing.T) {
	var seen []algorithm.Demand
	c := under(algorithm.Algorithm{Weigher: algorithm.Weigher{Weigh: func(_ float64, demands []algorithm.Demand, _ []float64) { seen = demands }}})
	c.Member = func(host uint32) account.Member {
		return account.Member{Name: fmt.Sprint("host", host), Labels: algorithm.NewLabels(map[string]string{"zone": fmt.Sprint(host % 2)})}
	}
	k := New(0, 0, c)
	for host := range uint32(3) {
		k.Report(interval, algorithm.Limit{Rate: 1, Burst: 1}, host, &account.Report{Elapsed: interval, Wants: float64(host + 1)})
	}
	for now := interval; len(seen) < 3 && now < 3*interval; now += interval / 3 {
		for host := range uint32(3) {
			k.Report(now+interval, algorithm.Limit{Rate: 1, Burst: 1}, host, &account.Report{Elapsed: interval, Wants: float64(host + 1)})
		}
	}
	for i, d := range seen {
		if d.Host != fmt.Sprint("host", i) || d.Labels.Get("zone") != fmt.Sprint(i%2) || d.Wants != float64(i+1) {
			t.Errorf("%+v", d)
		}
	}
	if len(seen) != 3 {
		t.Errorf("it saw %+v", seen)
	}
}

// The parameters of a key change while hosts use it: its pool goes on.
func TestParametersChangeLive(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	k := made(algorithm.NameElastic)
	var g account.Grant
	rounds := func(now time.Duration) {
		for end := now + 10*interval; now < end; now += interval {
			g, _ = k.Report(now, limit, 1, &account.Report{Elapsed: interval, Wants: 40})
		}
	}
	rounds(0)
	if want := 50 + math.Sqrt(40*0.2) + algorithm.Keep; math.Abs(g.Tokens-want) > 1e-5 {
		t.Fatalf("%v tokens, and half of the burst is lent twice", g.Tokens)
	}
	a, err := algorithm.Builtin().Build(algorithm.NameElastic, map[string]string{"overcommit": "0.25", "horizon": "1s"})
	if err != nil {
		t.Fatal(err)
	}
	k.Configure(10*interval, under(a))
	if rounds(10 * interval); math.Abs(g.Tokens-25-math.Sqrt(40)-algorithm.Keep) > 1e-5 || k.Hosts() != 1 {
		t.Errorf("%v tokens of %d hosts, and a quarter of the burst is lent twice", g.Tokens, k.Hosts())
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }
