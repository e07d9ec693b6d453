// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/internal/sum"
	"github.com/headgate/headgate/rpc/usage"
)

const s = time.Second

// reaching is how hosts reach a pool under the algorithm called name.
func reaching(name string) *account.Config {
	a, err := algorithm.Builtin().Lookup(name)
	if err != nil {
		panic(err)
	}
	c := under(a)
	c.Rule.Lease = 10 * time.Second
	return c
}

// plain is the Account that k has within.
func plain(k account.Account) *Account {
	switch k := k.(type) {
	case *asked:
		return &k.Account
	case *Account:
		return k
	}
	panic("another account")
}

// A pool that is asked all the time loses no fraction of a token, as one bucket does
// not.
func TestAPoolThatIsAskedIsABucketToTheLastDigit(t *testing.T) {
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto} {
		rule := exactbucket.Rule{Rate: 1. / 3600, Burst: 1e6} // in 4 µs it fills by 10⁻⁹
		k, _ := made(name).(*asked)
		one := exactbucket.New(0, rule)
		take := func(now time.Duration, n float64) {
			got := k.open(now, rule).Take(now, n, 0)
			k.close(now)
			if want := one.Take(now, n, 0); got != want {
				t.Fatalf("%s, at %v: %+v, and one bucket says %+v", name, now, got, want)
			}
		}
		take(time.Minute, 1e6-0.5)
		now := time.Minute
		for i := range 250_000 {
			now += 4 * time.Microsecond
			take(now, 1)
			if i%100 == 0 {
				k.Expire(now+time.Microsecond, func(uint32) {})
			}
		}
		k.Expire(now, func(uint32) {})
		if got, want := k.open(now, rule).Level(now), one.Level(now); got != want {
			t.Errorf("%s: %v are left, and one bucket has %v", name, got, want)
		}
	}
}

// Hosts that hold a grant when the rule says exact have it until they ask or say so, or
// until its lease ends. Nothing more is lent.
func TestWhereHostsAskForEachEventNothingIsLent(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	auto := askedOf(limit)
	var lent, weight [3]float64
	for host := range uint32(3) {
		g, _ := auto.Report(0, limit, host, &account.Report{Elapsed: s, Wants: 300, Cost: 1})
		if weight[host], lent[host] = g.Weight, g.Tokens; g.Weight < 0.1 || g.Tokens < 5 {
			t.Fatalf("host %d is granted %+v", host, g)
		}
	}
	k, _ := auto.Reach(0, reaching(algorithm.NameExact)).(*asked)
	k.open(0, bucketOf(limit)).Take(0, 700, 0) // so that there is room for what comes back
	k.close(0)
	if got := k.lends(0, 0, 100, 0, 300, 1); got != 0 {
		t.Errorf("%v tokens are lent", got)
	}
	report := func(now time.Duration, host uint32, used, has float64) {
		if g, ok := k.Report(now, limit, host, &account.Report{Allowed: used, Elapsed: time.Second, Wants: 300, Cost: 1, Has: has}); ok {
			t.Errorf("host %d is granted %+v", host, g)
		}
	}
	report(s, 0, 1000*weight[0], weight[0]) // it does not know the rule yet
	report(s, 1, 1000*weight[1], 0)         // it has, and holds nothing
	k.follow(s, bucketOf(limit))
	k.asksForEach(s, 2)
	if got := k.rates(1); math.Abs(got-weight[0]) > 1e-9 {
		t.Errorf("%v of the limit is out, want that of host 0 of %v", got, weight)
	}
	if got := k.lent; math.Abs(got-lent[0]-lent[2]) > 1e-3 {
		t.Errorf("%v tokens are out, want those of hosts 0 and 2 of %v", got, lent)
	}
	before := k.pool
	report(s, 2, 100, weight[2]) // says what it used before it knew the rule
	if got, want := k.pool-before, lent[2]+1000*weight[2]-100; math.Abs(got-want) > 1e-3 {
		t.Errorf("host 2 gave back %v, want %v", got, want)
	}
	k.Expire(9*s, func(uint32) {})
	if got := k.rates(1); math.Abs(got-weight[0]) > 1e-9 {
		t.Errorf("within its lease, host 0 has %v of the limit, want %v", got, weight[0])
	}
	k.Expire(12*s, func(uint32) {})
	if got := k.rates(1) + k.lent; math.Abs(got) > 1e-9 {
		t.Errorf("after all leases, %v is out", got)
	}
}

// A lease may be shorter than the time from one report to the next. What a host uses of its loan is
// charged once, by the report that follows.
func TestALoanIsOutUntilAReportOfItIsDue(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	auto := askedOf(limit)
	g, _ := auto.Report(0, limit, 0, &account.Report{Elapsed: s, Wants: 300, Cost: 1})
	c := reaching(algorithm.NameExact)
	c.Rule.Lease = s
	k, _ := auto.Reach(0, c).(*asked)
	if k.Expire(2*s, func(uint32) {}); g.Tokens < 10 || math.Abs(k.lent-g.Tokens) > 1e-3 {
		t.Errorf("%v tokens are out, of a loan of %v", k.lent, g.Tokens)
	}
}

// Where hosts ask for each event, a silent host may hold its grant for as long as its lease. That
// ends with the rule: under auto, a host that misses a report holds nothing.
func TestALongLeaseKeepsNothingOutUnderTheNextRule(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	auto := askedOf(limit)
	auto.Report(0, limit, 0, &account.Report{Elapsed: s, Wants: 300, Cost: 1})
	c := reaching(algorithm.NameExact)
	c.Rule.Lease = time.Minute
	exact, _ := auto.Reach(0, c).(*asked)
	exact.Expire(2*interval, func(uint32) {})
	if exact.lent == 0 {
		t.Fatal("nothing is out under exact")
	}
	k, _ := exact.Reach(2*interval, reaching(algorithm.NameAuto)).(*asked)
	if k.Expire(3*interval, func(uint32) {}); k.lent+k.rates(1) > 1e-9 {
		t.Errorf("%v tokens and %v of the limit are out at a host that has been silent for 3 intervals", k.lent, k.rates(1))
	}
}

// Hosts that have no events keep their starters, and give nothing back. A change to an algorithm
// whose hosts ask takes nothing out of the pool for that; a host that has used its starter pays
// for it when it comes back.
func TestIdleHostsCostNothingWhenTheKeyTurnsToAsking(t *testing.T) {
	limit := algorithm.Limit{Rate: 1e-3, Burst: 100}
	const idle, used = 5, 7
	for _, to := range []string{algorithm.NameAuto, algorithm.NameExact} {
		for _, swept := range []bool{false, true} {
			c := reaching(algorithm.NameElastic)
			c.Rule.Limit, c.Rule.Burst = 1e-3, limit.Burst
			k := New(-time.Minute, time.Hour, c)
			for now := -time.Minute; now <= 0; now += s {
				for host := range uint32(idle) {
					k.Report(now, limit, host, &account.Report{Elapsed: s, Cost: 1})
				}
			}
			now := 10 * s
			if swept {
				k.Expire(now, func(uint32) {})
			}
			before, starters := plain(k).pool, plain(k).starters
			if starters < idle*used {
				t.Fatalf("%d hosts have starters of %v", idle, starters)
			}
			pooled, _ := k.(account.Pooled)
			c = reaching(to)
			c.Rule.Limit, c.Rule.Burst = 1e-3, limit.Burst
			asked := pooled.Reach(now, c)
			asked.Expire(now+2*s, func(uint32) {})
			if got := plain(asked).pool; got < before {
				t.Errorf("to %s: %v tokens of %v are left", to, got, before)
			}
			before = plain(asked).pool
			now += 3 * s
			asked.Report(now, limit, 0, &account.Report{Allowed: used, Elapsed: s, Cost: 1, Elsewhere: true})
			if got := before - plain(asked).pool; math.Abs(got-used) > 0.1 {
				t.Errorf("to %s: a host that used %d of its starter pays %v", to, used, got)
			}
		}
	}
}

// A host that knows the rule says with its last report under the earlier one what
// it used before, in full, and keeps what the rule's account gave it.
func TestALastReportUnderAnotherNameCosts(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	for _, to := range []string{algorithm.NameElastic, algorithm.NameAuto} {
		from := algorithm.NameAuto
		if to == from {
			from = algorithm.NameElastic
		}
		old := made(from)
		for now := -20 * s; now <= 0; now += s {
			old.Report(now, limit, 1, &account.Report{Elapsed: s, Wants: 300, Cost: 1})
			old.Expire(now, func(uint32) {})
		}
		pooled, _ := old.(account.Pooled)
		k := pooled.Reach(0, reaching(to))
		has := plain(k).rates(1)
		g, ok := k.Report(s, limit, 1, &account.Report{Elapsed: s, Wants: 300, Cost: 1})
		before := *plain(k)
		if _, ok := k.Report(s, limit, 1, &account.Report{Elapsed: s, Allowed: 250, Wants: 300, Cost: 1, Has: has, Elsewhere: true}); ok {
			t.Errorf("to %s: a grant for who names %s", to, from)
		}
		if got := before.pool - plain(k).pool; got != 250 {
			t.Errorf("to %s: 250 that were used cost %v", to, got)
		}
		if got := plain(k).rates(1); !ok || math.Abs(got-g.Weight) > 1e-9 || plain(k).lent != before.lent {
			t.Errorf("to %s: the host has %v of the limit and %v tokens, and was granted %+v", to, got, plain(k).lent, g)
		}
		k.Report(s, limit, 1, &account.Report{Elapsed: s, Allowed: 1 << 53, Cost: 1, Has: has, Elsewhere: true})
		if deepest := account.Deepest(plain(k).terms, limit); plain(k).pool < deepest {
			t.Errorf("to %s: a count beyond reason makes a debt of %v; the deepest is %v", to, -plain(k).pool, -deepest)
		}
	}
}

// A host that names another algorithm, and uses the limit and more, leaves the others a little of it.
func TestAHostElsewhereLeavesOthersALittle(t *testing.T) {
	limit := algorithm.Limit{Rate: 1000, Burst: 1000}
	for _, name := range []string{algorithm.NameElastic, algorithm.NameAuto} {
		k := made(name)
		for now := -20 * interval; now <= 0; now += interval {
			k.Report(now, limit, 1, &account.Report{Elapsed: interval, Wants: 300, Cost: 1})
			k.Report(now, limit, 2, &account.Report{
				Elapsed: interval, Allowed: 1e6, Wants: 1e6, Cost: 1, Rates: account.Rates{Allowed: 1e6}, Elsewhere: true,
			})
		}
		if all, _ := account.Wanted(k); all > 300*(1+mostAside)+1 {
			t.Errorf("%s: beside a host that wants 300/s, all want %v/s", name, all)
		}
	}
}

// Hosts report under any name, ask and return; and the rule changes all the time. The
// sums are exactly those of the rows, and there are no more tokens than a burst.
func TestAPoolIsSaneHoweverHostsReachIt(t *testing.T) {
	names := []string{algorithm.NameExact, algorithm.NameAuto, algorithm.NameElastic}
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1), rapid.Float64Range(0, 1000))
		limit := algorithm.Limit{Rate: 100, Burst: 1000}
		k, _ := made(rapid.SampledFrom(names).Draw(t, "first")).(account.Pooled)
		now := time.Duration(0)
		for range 100 {
			now += time.Duration(rapid.Int64Range(0, int64(3*s)).Draw(t, "pause"))
			host := uint32(rapid.IntRange(0, 5).Draw(t, "host"))
			k.Expire(now, func(uint32) {})
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				c := reaching(rapid.SampledFrom(names).Draw(t, "next"))
				k = k.Reach(now, c)
				k.Configure(now, c)
			case 1:
				limit.Rate, limit.Burst = amount.Draw(t, "rate"), amount.Draw(t, "burst")
			case 2, 3, 4:
				k.Take(now, limit, &usage.Take{
					Auto: rapid.Bool().Draw(t, "auto"), Tokens: amount.Draw(t, "n"), More: amount.Draw(t, "most"), Wants: amount.Draw(t, "by now"),
				}, 1, host)
			default:
				k.Report(now, limit, host, &account.Report{
					Allowed: amount.Draw(t, "allowed"), Rejected: amount.Draw(t, "rejected"), Elapsed: s, Cost: 1,
					Wants: amount.Draw(t, "wants"), Has: rapid.Float64Range(0, 1).Draw(t, "has"), Elsewhere: rapid.Bool().Draw(t, "elsewhere"),
				})
			}
			a := plain(k)
			if !a.begun() {
				continue
			}
			lent, starters, parts, wants, users := 0.0, 0.0, sum.Parts(0), 0.0, int32(0)
			for i := range a.rows.All {
				row := a.rows.At(i)
				lent, starters, wants = lent+float64(row.out()), starters+float64(row.starter()), wants+float64(row.wants)
				parts.Add(row.weight)
				if row.wants > 0 {
					users++
				}
			}
			if lent != a.lent || starters != a.starters || parts != a.parts || wants != a.wants || users != a.users {
				t.Fatalf("sums are %v, %v, %v, %v and %d; of the rows they are %v, %v, %v, %v and %d", a.lent, a.starters, a.parts.Value(), a.wants, a.users, lent, starters, parts.Value(), wants, users)
			}
			if !(a.pool <= max(limit.Burst, 1000)+1e-3) {
				t.Fatalf("%v tokens of a burst of %v", a.pool, limit.Burst)
			}
		}
	})
}

// A host that was granted nothing here holds nothing, whatever it says: no stranger can
// close an exact key.
func TestNoStrangerClosesAnExactKey(t *testing.T) {
	limit := algorithm.Limit{Rate: 10, Burst: 10}
	k, _ := made(algorithm.NameExact).(*asked)
	k.open(0, bucketOf(limit)).Take(0, 10, 0)
	k.close(0)
	for host := range uint32(3) {
		k.Report(time.Minute, limit, host, &account.Report{Elapsed: s, Wants: 300, Cost: 1, Has: 1})
	}
	now := time.Minute + time.Second
	if got := k.open(now, bucketOf(limit)).Level(now); got < 10-1e-6 {
		t.Errorf("%v tokens are left of 10, after three strangers said that they hold the limit", got)
	}
}

// The ring moves twice at once: the owner of the day before yesterday hands over what it
// remembers of the key, after the one that knows what hosts hold. The pool does not fill
// with what they hold.
func TestAnEarlierOwnerHidesNothingThatHostsHold(t *testing.T) {
	const limit = 100
	rule := exactbucket.Rule{Rate: limit, Burst: limit}
	level := func(later ...float64) float64 {
		k, _ := made(algorithm.NameAuto).(*asked)
		for _, rates := range append([]float64{0.9}, later...) {
			k.open(0, rule).Lower(0, 0)
			k.close(0)
			k.takeOver(0, 2, rates)
		}
		k.open(0, rule).Lower(0, 0)
		k.close(0)
		return k.open(learning/2, rule).Level(learning / 2)
	}
	if want, got := level(), level(0); math.Abs(got-want) > 1e-9 {
		t.Errorf("%v tokens, want %v", got, want)
	}
}
