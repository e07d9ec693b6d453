// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// A host is charged 3,000 tokens of a limit of 100/s, which the rule lets it borrow. However
// hosts reach the pool, and however that changes meanwhile, all have what one bucket has: 100
// tokens in the next 30 s.
func TestADebtIsPaidBackHoweverHostsReachThePool(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	rule := bucketOf(limit)
	rule.MaxDebt = 30 * time.Second
	reach := func(name string) *account.Config {
		c := reaching(name)
		c.Rule = &dynamicconfig.Rule{Lease: c.Rule.Lease, Limit: 100, Burst: 100, MaxDebt: rule.MaxDebt}
		return c
	}
	names := []string{algorithm.NameElastic, algorithm.NameAuto, algorithm.NameExact}
	for _, first := range names {
		for _, then := range names {
			k, _ := New(0, time.Hour, reach(first)).(account.Pooled)
			used := 0.0
			host := askingHost{id: 1}
			// once has the host report what it was charged, and use all that it gets.
			once := func(now time.Duration, charged float64) {
				host.advance(now)
				weight := host.rate / limit.Rate
				g, ok := k.Report(now, limit, 1, &account.Report{Allowed: host.allowed + charged, Elapsed: time.Second, Wants: 1000, Cost: 1, Has: weight})
				host.allowed, host.reported = 0, now
				if ok {
					host.tokens, host.rate, host.burst, host.granted = g.Tokens, g.Weight*limit.Rate, g.Burst, true
				} else {
					host.tokens, host.rate = 0, 0
				}
				used += host.use(now, math.Inf(1))
				if b, ok := k.(*asked); ok {
					bucket := rule
					bucket.MaxDebt = 0
					for range 1000 {
						if !b.open(now, bucket).Take(now, 1, 0).OK {
							break
						}
						used++
					}
					b.close(now)
				}
			}
			once(0, 0)
			used = 0
			once(time.Second, 3000)
			for now := 2 * time.Second; now < 30*time.Second; now += time.Second {
				if now == 5*time.Second {
					c := reach(then)
					k = k.Reach(now, c)
					k.Configure(now, c)
				}
				once(now, 0)
				k.Expire(now, func(uint32) {})
			}
			if used > 100+1 {
				t.Errorf("%s, and %s after 5 s: %v tokens are used in 30 s after a charge of 3,000", first, then, used)
			}
		}
	}
}

// A host that was silent for so long that the owner takes it for dead is charged 45 tokens,
// which no event could use. All of that but what its rate gave is owed, whether the owner has
// looked for silent hosts or not.
func TestAChargeAtAnIdleHostIsOwed(t *testing.T) {
	limit := algorithm.Limit{Rate: 10, Burst: 20}
	for _, expired := range []bool{false, true} {
		c := reaching(algorithm.NameElastic)
		c.Rule = &dynamicconfig.Rule{Limit: 10, Burst: 20}
		k, _ := New(0, time.Hour, c).(account.Pooled)
		k.Report(0, limit, 1, &account.Report{Elapsed: time.Second, Wants: 0.2, Cost: 1})
		later := 4 * c.Interval
		if expired {
			k.Expire(later, func(uint32) {})
		}
		k.Report(later, limit, 1, &account.Report{Allowed: 45, Elapsed: later, Wants: 9, Cost: 1, Has: 0.02})
		if got := plain(k).pool; got > -20+4 || got < -25-1 {
			t.Errorf("%v tokens after a charge of 45 of 20", got)
		}
	}
}

// A charge is forgiven beyond what events and debts may bring a bucket to, so that it does not
// close a key for ever.
func TestADebtHasAnEnd(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	for _, name := range []string{algorithm.NameElastic, algorithm.NameAuto, algorithm.NameExact} {
		for _, tt := range []struct {
			rule    dynamicconfig.Rule
			deepest float64
		}{
			{dynamicconfig.Rule{Limit: 100, Burst: 100}, -200},
			{dynamicconfig.Rule{Limit: 100, Burst: 100, MaxWait: 2 * time.Second}, -400},
			{dynamicconfig.Rule{Limit: 100, Burst: 100, MaxWait: 2 * time.Second, MaxDebt: 5 * time.Second, MaxCost: 50}, -650},
		} {
			c := reaching(name)
			c.Rule = &tt.rule
			k, _ := New(0, time.Hour, c).(account.Pooled)
			k.Report(0, limit, 1, &account.Report{Elapsed: time.Second, Cost: 1})
			k.Report(time.Second, limit, 1, &account.Report{Allowed: 1e9, Elapsed: time.Second, Cost: 1})
			if got := plain(k).pool; math.Abs(got-tt.deepest) > 1 {
				t.Errorf("%s: %v tokens after a charge of 1e9, want %v", name, got, tt.deepest)
			}
		}
	}
}

// A limit becomes 0 for a moment, and then is a millionth of what it was. A debt does not take
// a million times longer to pay back.
func TestADebtFollowsALimitThatWasZero(t *testing.T) {
	for _, name := range []string{algorithm.NameAuto, algorithm.NameExact} {
		c := reaching(name)
		k, _ := New(0, time.Hour, c).(*asked)
		var left float64
		for i, perSecond := range []float64{1e6, 0, 1} {
			limit, now := algorithm.Limit{Rate: perSecond, Burst: perSecond}, time.Duration(i)
			rule := *c.Rule
			rule.Limit, rule.Burst = rate.Limit(perSecond), perSecond
			c.Rule = &rule
			k.Configure(now, c)
			b := k.open(now, bucketOf(limit))
			if i == 0 {
				b.Charge(now, 1e9, account.Deepest(nil, limit))
			}
			left = b.Level(now)
			k.close(now)
		}
		if left < -2 {
			t.Errorf("%s: %v tokens at 1/s", name, left)
		}
	}
}

// A host that has used most of the burst, and reports late because its machine is busy, is
// charged with what the limit has not filled in again since.
func TestAHostThatReportsLateHasUsedTheBurst(t *testing.T) {
	limit := algorithm.Limit{Rate: 10, Burst: 1000}
	for _, tc := range []struct {
		elapsed time.Duration
		left    float64
	}{{100 * time.Millisecond, 200}, {3 * time.Second, 230}, {70 * time.Second, 900}, {100 * time.Second, 1000 - 800*recent/100}} {
		c := reaching(algorithm.NameElastic)
		c.Rule.Limit, c.Rule.Burst = 10, 1000
		k, _ := New(0, 0, c).(*Account)
		k.Report(0, limit, 2, &account.Report{Elapsed: time.Second, Cost: 1}) // the pool begins, and fills
		k.Report(time.Hour, limit, 1, &account.Report{Allowed: 800, Elapsed: tc.elapsed, Wants: 1, Cost: 1})
		if math.Abs(k.pool-tc.left) > 5 { // a few are lent
			t.Errorf("after 800 in %v, there are %g tokens; want %g", tc.elapsed, k.pool, tc.left)
		}
	}
}

// A host without a grant used what the rule's whole limit filled in, while it was on the smaller side of a
// split: it owes what a moment brought, and not what the side's part did not fill in.
func TestTheUseOfAHostWithoutAGrantIsOfTheWholeLimit(t *testing.T) {
	c := reaching(algorithm.NameElastic)
	c.Rule.Limit, c.Rule.Burst = 100, 100
	k := New(0, 0, c)
	part := algorithm.Limit{Rate: 25, Burst: 25}
	k.Report(-time.Minute, part, 9, &account.Report{Elapsed: s, Cost: 1})
	k.Report(0, part, 9, &account.Report{Elapsed: s, Cost: 1})
	before := plain(k).pool
	k.Report(0, part, 1, &account.Report{Elapsed: 10 * s, Allowed: 1000, Cost: 1})
	if owed := before - plain(k).pool; owed > 1000*recent/10+1 {
		t.Errorf("1000 in 10 s of a limit of 100/s cost %v", owed)
	}
}

// A rule changes what one event may do, and neither its limit nor its burst. The next event of a key
// in use is decided by it.
func TestWhatOneEventMayDoFollowsItsRule(t *testing.T) {
	limit := algorithm.Limit{Rate: 1, Burst: 10}
	unset := func(*dynamicconfig.Rule) {}
	owes := func(r *dynamicconfig.Rule) { r.MaxDebt, r.MaxCost = time.Minute, 20 }
	waits := func(r *dynamicconfig.Rule) { r.MaxWait = time.Minute }
	for _, c := range []struct {
		what          string
		before, after func(*dynamicconfig.Rule)
		cost          float64
		passes        bool
	}{
		{"a debt is allowed", unset, owes, 15, true},
		{"no debt is allowed", owes, unset, 15, false},
		{"a larger cost is allowed", func(r *dynamicconfig.Rule) { r.MaxCost = 5 }, unset, 8, true},
		{"a smaller cost is allowed", unset, func(r *dynamicconfig.Rule) { r.MaxCost = 5 }, 8, false},
		{"a longer wait is allowed", func(r *dynamicconfig.Rule) { r.MaxWait = time.Second }, waits, 10, true},
		{"a shorter wait is allowed", waits, func(r *dynamicconfig.Rule) { r.MaxWait = time.Second }, 10, false},
	} {
		for _, name := range []string{algorithm.NameAuto, algorithm.NameExact} {
			config := reaching(name)
			follow := func(now time.Duration, k *asked, change func(*dynamicconfig.Rule)) *asked {
				rule := *config.Rule
				rule.Limit, rule.Burst, rule.MaxCost, rule.MaxWait, rule.MaxDebt = 1, limit.Burst, limit.Burst, 0, 0
				change(&rule)
				config.Rule = &rule
				if k == nil {
					k, _ = New(now, time.Hour, config).(*asked)
				}
				k.Configure(now, config)
				return k
			}
			k := follow(0, nil, c.before)
			if event := (usage.Take{Tokens: 2, Longest: time.Minute}); !k.Take(1, limit, &event, 0, 1).OK {
				t.Fatalf("%s, %s: an event of 2 is refused by a full bucket", name, c.what)
			}
			follow(2, k, c.after)
			event := usage.Take{Tokens: c.cost, Longest: time.Minute}
			if took := k.Take(3, limit, &event, 0, 1); took.OK != c.passes {
				t.Errorf("%s, %s: an event of %v passes: %t, want %t", name, c.what, c.cost, took.OK, c.passes)
			}
		}
	}
}
