// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// inQuota is how many keys of the rule called glob are counted.
func inQuota(a *Aggregator, glob string, auto bool) int64 {
	name := algorithm.NameExact
	if auto {
		name = algorithm.NameAuto
	}
	s := a.settings.Load()
	for rule := range s.Snapshot.Each() {
		if n := s.Quota(rule, name); rule.Key == glob && n != nil {
			return n.Keys()
		}
	}
	return -1
}

// No program can make more keys than its rule has, and those of
// other rules have their room.
func TestTakesMakeNoMoreKeysThanTheirRuleMayHave(t *testing.T) {
	for _, rule := range []dynamicconfig.Rule{exactRule(1, 1), autoRule(1, 1)} {
		auto, other := rule.Algorithm == algorithm.NameAuto, rule
		rule.Key, rule.MaxKeys, other.Key = "login:*", 100, "other:*"
		a := New(algorithm.Builtin(), snapshot(t, cadence, rule, other))
		take := func(now time.Duration, key string) usage.Took {
			return took(t, a, now, usage.Take{Key: key, Auto: auto, Tokens: 1})
		}
		var decided atomic.Int64
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := range 100 {
					if take(0, fmt.Sprint("login:", g, "-", i)).Decided {
						decided.Add(1)
					}
				}
			})
		}
		all.Wait()
		if got := inQuota(a, "login:*", auto); decided.Load() != 100 || got != 100 || a.keys.Len() != 100 {
			t.Errorf("%s: %d of 400 keys are decided, %d counted, %d kept, want 100", rule.Algorithm, decided.Load(), got, a.keys.Len())
		}
		if !take(0, "other:1").Decided {
			t.Errorf("%s: there is no room for the keys of another rule", rule.Algorithm)
		}
		// A bucket that is full again is not counted any more; others are.
		now := 2 * time.Second
		a.GC(now)
		if got := inQuota(a, "login:*", auto); got != 0 {
			t.Errorf("%s: %d keys are counted that are gone", rule.Algorithm, got)
		}
		for i := range 150 {
			if got := take(now, fmt.Sprint("login:again-", i)); got.Decided != (i < 100) {
				t.Errorf("%s: key %d: %+v", rule.Algorithm, i, got)
			}
		}
		a.GC(now)
		if got := take(now, "login:again-1"); !got.Decided || take(now, "login:new").Decided {
			t.Errorf("%s: a key that is there is not decided any more, or is not counted any more", rule.Algorithm)
		}
	}
}

// Places are kept over changes of the rules, and follow the keys to the rule
// that is theirs now.
func TestQuotasFollowTheRules(t *testing.T) {
	for _, rule := range []dynamicconfig.Rule{exactRule(1, 100), autoRule(1, 100)} {
		auto := rule.Algorithm == algorithm.NameAuto
		configure := func(a *Aggregator, most int, globs ...string) {
			t.Helper()
			var rules []dynamicconfig.Rule
			for _, glob := range globs {
				r := rule
				r.Key, r.MaxKeys = glob, most
				rules = append(rules, r)
			}
			if err := a.Configure(snapshot(t, cadence, rules...)); err != nil {
				t.Fatal(err)
			}
		}
		take := func(a *Aggregator, key string) bool {
			return took(t, a, 0, usage.Take{Key: key, Auto: auto, Tokens: 50}).Decided
		}
		expect := func(a *Aggregator, want map[string]int64) {
			t.Helper()
			for glob, n := range want {
				if got := inQuota(a, glob, auto); got != n {
					t.Errorf("%s: %d keys of %q, want %d", rule.Algorithm, got, glob, n)
				}
			}
		}
		a := under(t, rule)
		configure(a, 3, "k:*")
		for i := range 3 {
			take(a, fmt.Sprint("k:", i))
		}
		configure(a, 3, "k:*") // again, and no key has been looked at since
		expect(a, map[string]int64{"k:*": 3})
		if take(a, "k:3") {
			t.Errorf("%s: a change of the rules made room", rule.Algorithm)
		}
		configure(a, 3, "k:0", "k:*")
		if !take(a, "k:0") || !take(a, "k:4") || take(a, "k:5") {
			t.Errorf("%s: the key that has another rule now is still counted under the earlier one", rule.Algorithm)
		}
		expect(a, map[string]int64{"k:0": 1, "k:*": 3})
		configure(a, 1, "k:*") // what is there stays
		a.GC(0)
		expect(a, map[string]int64{"k:*": 4, "k:0": -1})
		configure(a, 1, "other:*")
		a.GC(0)
		configure(a, 1, "k:*")
		a.GC(0)
		a.GC(time.Hour)
		expect(a, map[string]int64{"k:*": 0})
	}
}

// A key that another rule has by now, under another name of the pool, is not counted where it was.
func TestAKeyThatGoesToAnotherRuleMakesRoom(t *testing.T) {
	rule, one := exactRule(1, 1), autoRule(1, 1)
	rule.Key, rule.MaxKeys, one.Key = "k:*", 2, "k:0"
	a := under(t, rule)
	take := func(key string) bool { return took(t, a, 0, usage.Take{Key: key, Tokens: 1}).Decided }
	if !take("k:0") || !take("k:1") || take("k:2") {
		t.Fatal("there is not room for two keys")
	}
	if err := a.Configure(snapshot(t, cadence, one, rule)); err != nil {
		t.Fatal(err)
	}
	a.GC(0)
	if got := inQuota(a, "k:*", false); got != 1 || !take("k:2") {
		t.Errorf("%d keys are counted, and there is no room for a second one", got)
	}
}

// Hosts that report hold max_keys themselves, each on its own. Their keys count,
// and are not refused.
func TestKeysThatAreReportedCount(t *testing.T) {
	rule := autoRule(1000, 1000)
	rule.MaxKeys = 2
	a := under(t, rule)
	u := reportOf(algorithm.NameAuto, 1, 0, time.Second, "k1", "k2", "k3")
	u.Wants = []float64{1, 1, 1}
	step(t, a, 0, "h", u)
	if got := inQuota(a, "*", true); got != 3 || a.keys.Len() != 3 {
		t.Errorf("%d keys are counted of %d, want 3", got, a.keys.Len())
	}
	if took(t, a, 0, usage.Take{Key: "k4", Auto: true, Tokens: 1}).Decided {
		t.Error("a take makes a key that is too many")
	}
	a.GC(time.Hour)
	a.GC(2 * time.Hour)
	if got := inQuota(a, "*", true); got != 0 || a.keys.Len() != 0 {
		t.Errorf("%d keys are counted of %d, after all have left", got, a.keys.Len())
	}
}

// Strangers that took all places of a key (max_hosts_per_key) and went silent keep
// an honest host out for ten intervals, though they count as dead after two.
func TestStrangersDoNotKeepAnHonestHostOutForTenIntervals(t *testing.T) {
	a := New(algorithm.Builtin(), snapshot(t, dynamicconfig.Properties{UpdateInterval: s, MaxHostsPerKey: 5},
		dynamicconfig.Rule{Key: "*", Limit: 1000, Burst: 100, Algorithm: algorithm.NameElastic}))
	for i := range 5 {
		step(t, a, 0, fmt.Sprint("stranger", i), reportOf(algorithm.NameElastic, 1000, 0, s, "k"))
	}
	for now := s; now < 12*s; now += s {
		a.GC(now)
		if g := step(t, a, now, "honest", reportOf(algorithm.NameElastic, 1000, 0, s, "k")); g.Lease[0] > 0 {
			if now > 3*s {
				t.Errorf("the honest host gets its first grant after %v", time.Duration(now))
			}
			return
		}
	}
	t.Error("the honest host gets no grant in 12 intervals")
}
