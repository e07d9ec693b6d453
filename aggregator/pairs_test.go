// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
)

// halves gives half to the host that wants most, and divides the rest by demand.
func halves(capacity float64, demands []algorithm.Demand, parts []float64) {
	biggest, all := 0, 0.0
	for i, d := range demands {
		if d.Wants > demands[biggest].Wants {
			biggest = i
		}
		all += d.Wants
	}
	for i, d := range demands {
		if parts[i] = capacity / 2; i != biggest {
			parts[i] *= d.Wants / (all - demands[biggest].Wants)
		}
	}
}

// A Weigh is registered once, and divides alike on each account.
func TestAWeighRunsOnEachAccount(t *testing.T) {
	registry := algorithm.Builtin()
	if err := registry.Register("halves", halves); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"halves", "average/halves", "pool/halves", "claims/halves"} {
		rule := dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: name, Learning: dynamicconfig.None}
		a := New(registry, snapshot(t, dynamicconfig.Properties{}, rule))
		c := newCrowd(a, 100, 300, 100, 300, 600)
		c.names = []string{name, name, name, name}
		for range 20 {
			c.round(t, 3*time.Second)
		}
		for h, want := range []float64{3. / 14, 1. / 14, 3. / 14, 1. / 2} {
			if got := c.weight[h]; got < want-0.02 || got > want+0.02 {
				t.Errorf("%s: weights are %.3f, and that of host %d is not near %.3f", name, c.weight, h, want)
			}
		}
	}
}

// A Weigh that gives one host less than nothing gives the others no more than there is.
func TestAPartBelowZeroLeavesNoMoreForOthers(t *testing.T) {
	registry := algorithm.Builtin()
	if err := registry.Register("negative", func(capacity float64, demands []algorithm.Demand, parts []float64) {
		for i, d := range demands {
			if parts[i] = capacity; d.Host == "host0" {
				parts[i] = -capacity * float64(len(parts)-2)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"average/negative", "negative", "claims/negative"} {
		a := New(registry, snapshot(t, dynamicconfig.Properties{}, every(name)))
		c := newCrowd(a, 100, 200, 200, 200, 200)
		c.names = []string{name, name, name, name}
		for range 20 {
			c.round(t, 3*time.Second)
		}
		if sum := c.sum() - c.weight[0]; sum > 1.01 {
			t.Errorf("%s: weights %.2f sum to %.2f", name, c.weight, sum)
		}
	}
}

// A built-in weigher does on each account what it does in its plain form there.
func TestFormsDoAsTheirWeighs(t *testing.T) {
	registry := algorithm.Builtin()
	for name, weigh := range map[string]algorithm.Weigh{
		"fair-share": algorithm.FairShare, "proportional-share": algorithm.ProportionalShare, "request-weighted": algorithm.RequestWeighted,
	} {
		if err := registry.Register("plain-"+name, weigh); err != nil {
			t.Fatal(err)
		}
		for _, account := range algorithm.Accounts {
			var weights [2][]float64
			for i, by := range []string{algorithm.Pair(account, name), algorithm.Pair(account, "plain-"+name)} {
				rule := dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: by, Learning: dynamicconfig.None}
				a := New(registry, snapshot(t, dynamicconfig.Properties{}, rule))
				c := newCrowd(a, 100, 10, 40, 90, 200)
				c.names = []string{by, by, by, by}
				for range 20 {
					c.round(t, 3*time.Second)
				}
				weights[i] = c.weight
			}
			for h, got := range weights[0] {
				if want := weights[1][h]; got < want-0.02 || got > want+0.02 {
					t.Errorf("%s on %s: weights are %.3f, in the plain form %.3f", name, account, weights[0], weights[1])
					break
				}
			}
		}
	}
}

// A Weigh divides slots that are claimed, in a band of its own too. One that makes no
// number, or panics, costs the claim its lease. The answer says why, and the log too.
func TestAWeighDividesClaims(t *testing.T) {
	registry := algorithm.Builtin()
	for name, weigh := range map[string]algorithm.Weigh{
		"halves": halves,
		"broken": func(_ float64, _ []algorithm.Demand, parts []float64) { parts[0] = -1 },
		"panics": func(float64, []algorithm.Demand, []float64) { panic("boom") },
	} {
		if err := registry.Register(name, weigh); err != nil {
			t.Fatal(err)
		}
	}
	for _, rule := range []dynamicconfig.Rule{
		{Algorithm: "claims/halves"},
		{Algorithm: "fair-share", Priorities: map[int64]string{0: "claims/halves"}},
		{Algorithm: "fair-share", Priorities: map[int64]string{0: "halves"}}, // which stands for the pool elsewhere
	} {
		rule.Key, rule.Limit, rule.InFlight, rule.Learning = "*", 100, true, dynamicconfig.None
		a := New(registry, snapshot(t, dynamicconfig.Properties{}, rule))
		want := map[string]float64{"a": 90, "b": 120, "c": 30}
		got := make(map[string]float64)
		for now := time.Duration(0); now < 10*time.Minute; now += 10 * time.Second {
			for host, wants := range want {
				c := &claims.Claims{Rows: []claims.Claim{{Key: "k", Host: host, Has: got[host], Bands: []claims.Band{{Clients: 1, Wants: wants}}}}}
				got[host] = a.Claim(now, c).Rows[0].Amount
			}
		}
		if got["b"] != 50 || got["a"] < 37 || got["a"] > 38 || got["c"] < 12 || got["c"] > 13 {
			t.Errorf("%+v: %v of 100 slots", rule.Algorithm, got)
		}
		for i, name := range []string{"claims/broken", "claims/panics"} {
			rule.Algorithm, rule.Priorities = name, nil
			if err := a.Configure(snapshot(t, dynamicconfig.Properties{}, rule)); err != nil {
				t.Fatal(err)
			}
			c := &claims.Claims{Rows: []claims.Claim{{Key: "k", Host: "a", Bands: []claims.Band{{Clients: 1, Wants: 5}}}}}
			if l := a.Claim(time.Duration(i+1)*time.Hour, c).Rows[0]; l.Refused == "" {
				t.Errorf("%s: %+v", name, l)
			}
		}
	}
}

// registryWith has weigh too, under name.
func registryWith(t testing.TB, name string, weigh algorithm.Weigh) *algorithm.Registry {
	t.Helper()
	r := algorithm.Builtin()
	if err := r.Register(name, weigh); err != nil {
		t.Fatal(err)
	}
	return r
}

// A band of higher priority that takes all leaves nothing.
func TestNothingLeftIsNoFailure(t *testing.T) {
	a := New(registryWith(t, "mine", algorithm.RequestWeighted), snapshot(t, dynamicconfig.Properties{}, dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: "claims/mine", Learning: dynamicconfig.None}))
	claim := func(host string, priority int64, wants float64) claims.Lease {
		return a.Claim(time.Second, &claims.Claims{Rows: []claims.Claim{{Key: "k", Host: host, Bands: []claims.Band{{Priority: priority, Clients: 1, Wants: wants}}}}}).Rows[0]
	}
	claim("high", 2, 200)
	if l := claim("low", 1, 10); l.Refused != "" {
		t.Error(l)
	}
}

func TestALimitOfZeroIsNoFailure(t *testing.T) {
	for _, name := range []string{"average/mine", "pool/mine", "claims/mine"} {
		a := New(registryWith(t, "mine", algorithm.RequestWeighted), snapshot(t, dynamicconfig.Properties{}, dynamicconfig.Rule{Key: "*", Limit: 0, Algorithm: name, Learning: dynamicconfig.None}))
		for i := range 3 {
			g := step(t, a, time.Duration(i+1)*3*time.Second, "host", reportOf(name, 0, 10, time.Second, "k"))
			if i == 2 && (g.Lease[0] == 0 || g.Weight[0] != 0) {
				t.Error(name, g)
			}
		}
	}
}

// A weigher that panics at a host's first claim: the name of the host stays with its row.
func TestAPanicAtAFirstClaimMixesNoHosts(t *testing.T) {
	fails := true
	a := New(registryWith(t, "mine", func(c float64, d []algorithm.Demand, p []float64) {
		if fails {
			panic("boom")
		}
		algorithm.RequestWeighted(c, d, p)
	}), snapshot(t, dynamicconfig.Properties{}, dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: "claims/mine", Learning: dynamicconfig.None}))
	claim := func(now time.Duration, host string) claims.Lease {
		return a.Claim(now, &claims.Claims{Rows: []claims.Claim{{Key: "k", Host: host, Bands: []claims.Band{{Clients: 1, Wants: 60}}}}}).Rows[0]
	}
	claim(1*time.Second, "first")
	fails = false
	for i := range 3 {
		claim(2*time.Second, fmt.Sprint("other", i))
	}
	k := known(a, "claims/mine", "k")
	if k.Account.Hosts() != 4 {
		t.Errorf("%d hosts, want 4", k.Account.Hosts())
	}
	for id := range uint32(4) {
		if !k.Account.Knows(id) || a.keys.Hosts.Name(id) == "" {
			t.Errorf("host %d has no row, or no name", id)
		}
	}
}

// Names of one pair are one account.
func TestTwoNamesOfAPairAreOneAccount(t *testing.T) {
	for _, names := range [][2]string{
		{"mine", "pool/mine"},
		{"pool/mine", "mine"},
		{"elastic", "pool/request-weighted"},
		{"pool/request-weighted", "elastic"},
		{"request-weighted", "average/request-weighted"},
		{"claims/fair-share", "fair-share"},
	} {
		a := New(registryWith(t, "mine", algorithm.RequestWeighted), snapshot(t, dynamicconfig.Properties{}, dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: names[0], Learning: dynamicconfig.None}))
		for i := range 3 {
			g := step(t, a, time.Duration(i+1)*3*time.Second, "host", reportOf(names[1], 10, 10, time.Second, "k"))
			if i == 2 && g.Lease[0] == 0 {
				t.Error(names, "no grant")
			}
		}
	}
}

// All hosts are weighed together now and then. One that comes between must not be shut
// out until its next report.
func TestAHostThatIsNewerThanTheLastLookKeepsItsFallback(t *testing.T) {
	for _, name := range []string{"average/mine", "pool/mine", "claims/mine"} {
		a := New(registryWith(t, "mine", algorithm.RequestWeighted), snapshot(t, dynamicconfig.Properties{UpdateInterval: 3 * s}, dynamicconfig.Rule{Key: "*", Limit: 10000, Algorithm: name, Learning: dynamicconfig.None}))
		now := 10 * s
		for range 3 {
			for h := range 100 {
				step(t, a, now, fmt.Sprint("old", h), reportOf(name, 100, 0, 3*s, "k"))
				now += 30 * time.Millisecond
			}
		}
		u := reportOf(name, 100, 0, 3*s, "k")
		if g := step(t, a, now, "new", u); g.Lease[0] > 0 && g.Burst[0] < 100 {
			t.Errorf("%s: the new host gets %+v", name, g)
		}
		if l := a.Claim(now, &claims.Claims{Rows: []claims.Claim{{Key: "k", Host: "newer", Headroom: true, Bands: []claims.Band{{Clients: 1, Wants: 33}}}}}).Rows[0]; name == "claims/mine" && l.Refresh > 3*s {
			t.Errorf("%s: the new claimant gets %+v", name, l)
		}
		if g := step(t, a, now+3*s, "new", u); g.Lease[0] == 0 || !(g.Weight[0] > 0.003) {
			t.Errorf("%s: an interval later the host gets %+v", name, g)
		}
	}
}

// A weigher that panics costs no more than one that does not: its stack is expensive, and
// others wait for the lock.
func TestAWeigherThatPanicsRunsNoMoreOftenThanOthers(t *testing.T) {
	for _, name := range []string{"average/mine", "pool/mine", "claims/mine"} {
		calls := 0
		registry := registryWith(t, "mine", func(float64, []algorithm.Demand, []float64) {
			calls++
			panic("a defect")
		})
		a := New(registry, snapshot(t, dynamicconfig.Properties{UpdateInterval: s}, dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: name, Learning: dynamicconfig.None}))
		for i := range 100 {
			g := step(t, a, 10*s+time.Duration(i)*10*time.Millisecond, fmt.Sprint("host", i%5), reportOf(name, 10, 0, s/20, "k"))
			if g.Lease[0] != 0 {
				t.Errorf("%s: %+v", name, g)
			}
		}
		if calls < 7 || calls > 9 {
			t.Errorf("%s: %d calls in one interval, want 8", name, calls)
		}
	}
}

// A host that has just released its lease leaves its number to the next host, and not its part.
func TestAHostHasNoPartOfTheOneBefore(t *testing.T) {
	wanted := func(_ float64, demands []algorithm.Demand, parts []float64) {
		for i := range demands {
			parts[i] = demands[i].Wants
		}
	}
	a := New(registryWith(t, "wanted", wanted), snapshot(t, dynamicconfig.Properties{}, dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: "claims/wanted", Learning: dynamicconfig.None}))
	claim := func(host string, wants float64, release bool) float64 {
		return a.Claim(time.Second, &claims.Claims{Rows: []claims.Claim{{Key: "k", Host: host, Release: release, Bands: []claims.Band{{Clients: 1, Wants: wants}}}}}).Rows[0].Amount
	}
	claim("stays", 5, false)
	claim("goes", 1, false)
	claim("goes", 0, true)
	if got := claim("comes", 90, false); got != 90 {
		t.Errorf("it wants 90 of 95, and gets %v", got)
	}
}
