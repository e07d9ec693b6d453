// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// A host asks for an event that no bucket of the rule can ever pay. The cluster above hears of
// what the others want, and not of that.
func TestAnAskThatCanNeverPassIsNoDemand(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: algorithm.NameExact, Burst: 100})
	for now := time.Duration(0); now < 20*s; now += s {
		took(t, a, now, usage.Take{Tokens: 10})
		if now == 10*s {
			took(t, a, now, usage.Take{Tokens: rpc.MaxTokens})
		}
		a.GC(now + s/2)
	}
	c := answered(t, a, 20*s, lease(100))
	if len(c.Bands) != 1 || c.Bands[0].Wants > 500 {
		t.Errorf("it claims %+v, and its hosts want 10/s", c.Bands)
	}
}

// The first ask for a key comes before the cluster above has said what there is. The owner does
// not refuse it, and the host's fallback decides. What was let through is charged.
func TestTheFallbackDecidesUntilTheClusterAboveHasSaidWhatThereIs(t *testing.T) {
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto} {
		a := below(t, dynamicconfig.Rule{Algorithm: name, Burst: 100})
		ask := func(at time.Duration, spent usage.Spent) usage.Took {
			return took(t, a, at, usage.Take{Tokens: 1, Auto: name == algorithm.NameAuto, Spent: spent})
		}
		if got := ask(0, usage.SpentNot); got.Decided {
			t.Errorf("%s: before there is a lease, the owner decides: %+v", name, got)
		}
		if got := ask(s/20, usage.SpentApart); !got.Decided {
			t.Errorf("%s: what the fallback let through is not charged: %+v", name, got)
		}
		if c := answered(t, a, s, lease(100)); name == algorithm.NameExact && (len(c.Bands) != 1 || !(c.Bands[0].Wants > 0)) {
			t.Errorf("%s: it claims %+v for a key that is asked for", name, c) // hosts under auto report what they want
		}
		ask(s, usage.SpentNot)
		if got := ask(2*s, usage.SpentNot); !got.Decided || !got.OK {
			t.Errorf("%s: with a lease, the owner answers %+v", name, got)
		}
		if got := ask(200*s, usage.SpentNot); !got.Decided || got.OK {
			t.Errorf("%s: when the lease has ended and nothing is safe, the owner answers %+v", name, got)
		}
	}
}

// Until the cluster above has said what there is, hosts that ask for each event share what is safe for one
// host, and the owner decides about that.
func TestWhatIsSafeIsDecidedBeforeTheClusterAboveHasAnswered(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: algorithm.NameExact, Burst: 100, Fallback: dynamicconfig.FallbackSafe, SafeCapacity: 50}) // of 1000/s, and so 5 tokens
	for i := range 5 {
		if got := took(t, a, 0, usage.Take{Tokens: 1}); !got.OK {
			t.Errorf("event %d: %+v", i, got)
		}
	}
	if got := took(t, a, 0, usage.Take{Tokens: 1}); got.OK || !got.Decided {
		t.Errorf("beyond what is safe: %+v", got)
	}
}

// A key of which a cluster uses little has a small part of the limit, and of the burst. Events
// pass all the same. A key that is new has its lease soon.
func TestAKeyBelowAParentIsServed(t *testing.T) {
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto} {
		for _, every := range []time.Duration{s / 10, 3 * s} {
			rule := dynamicconfig.Rule{Limit: 10, Burst: 10, Algorithm: algorithm.NameFairShare, Lease: 60 * s, Refresh: 15 * s, Learning: dynamicconfig.None}
			above := leased(t, rule)
			rule.Algorithm, rule.Parent = name, true
			a := leased(t, rule)
			auto, events, refused := name == algorithm.NameAuto, 0, 0
			for now := time.Duration(0); now < 120*s; now += s / 10 {
				if now%every == 0 {
					events++
					if got := took(t, a, now, usage.Take{Tokens: 1, Auto: auto}); got.Decided && !got.OK {
						refused++
					}
				}
				if auto && now%max(every, s) == 0 && now > 0 { // what the owner allowed counts as rejected
					step(t, a, now, "h", reportOf(name, 0, int64(max(s/every, 1)), max(every, s), "k"))
				}
				if now%(3*s) == 0 && now > 0 {
					a.GC(now)
					above.GC(now)
				}
				if asked := a.Parent().Ask(now, "region"); asked != nil {
					a.Parent().Hear(now, asked, above.Claim(now, asked), nil)
				}
			}
			if refused > max(events/15, 4) {
				t.Errorf("%s: of %d events, one in %v, under a limit of 10/s, %d are refused", name, events, every, refused)
			}
		}
	}
}

// The owner forgets a key with a parent some time after the last ask.
func TestAnExactKeyWithAParentIsForgotten(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: algorithm.NameExact, Burst: 100})
	took(t, a, 0, usage.Take{Tokens: 10})
	answered(t, a, s, lease(1000))
	now := s
	for ; now < 10*time.Minute && a.keys.Len() > 0; now += 3 * s {
		a.GC(now)
	}
	if a.keys.Len() > 0 {
		t.Errorf("after %v there are %d keys", now, a.keys.Len())
	}
}

// The owner forgets old keys just after a host has asked for one. The claim for it is not lost.
func TestAKeyThatIsAskedForKeepsItsClaim(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: algorithm.NameExact, Burst: 100})
	took(t, a, 0, usage.Take{Tokens: 10})
	a.GC(s / 20)
	if c := answered(t, a, s, lease(100)); c.Key != "k" {
		t.Errorf("it claims %+v", c)
	}
}

// A key is in debt when the last host leaves it. The cluster above gives a key without demand
// nothing, so the debt is not paid back. The owner forgets the key all the same.
func TestAKeyInDebtThatNobodyWantsIsForgotten(t *testing.T) {
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto} {
		above := leased(t, dynamicconfig.Rule{Limit: 1000, Algorithm: algorithm.NameFairShare, Learning: dynamicconfig.None})
		a := below(t, dynamicconfig.Rule{Algorithm: name, Burst: 100, MaxWait: time.Minute})
		now := time.Duration(0)
		pass := func(d time.Duration) {
			for end := now + d; now < end; now += s {
				if asked := a.Parent().Ask(now, "region"); asked != nil {
					a.Parent().Hear(now, asked, above.Claim(now, asked), nil)
				}
				above.GC(now)
				a.GC(now)
			}
		}
		auto := name == algorithm.NameAuto
		for range 30 {
			took(t, a, now, usage.Take{Auto: auto, Tokens: 10})
			pass(s)
		}
		for range 2 { // for the second, there is the whole limit
			took(t, a, now, usage.Take{Auto: auto, Tokens: 1e6, Spent: usage.SpentBeyond})
			pass(9 * s)
		}
		pass(time.Hour)
		if a.keys.Len() > 0 {
			t.Errorf("%s: after an hour there are %d keys, with %v tokens", name, a.keys.Len(), took(t, a, now, usage.Take{Auto: auto}).Left)
		}
	}
}

// The first ask for a key comes before the cluster above has leased anything, and the next one long
// after that. The pool has filled meanwhile.
func TestAPoolFillsFromTheLeaseOn(t *testing.T) {
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto} {
		a := below(t, dynamicconfig.Rule{Algorithm: name, Burst: 100})
		ask := func(at time.Duration) usage.Took {
			return took(t, a, at, usage.Take{Tokens: 1, Auto: name == algorithm.NameAuto})
		}
		ask(0)
		answered(t, a, s/10, lease(100))
		if got := ask(2 * s); !got.OK {
			t.Errorf("%s: two seconds after a lease of 100/s the owner answers %+v", name, got)
		}
	}
}

// A key that becomes exact claims what its hosts ask for from then on: what they asked for under
// auto is in their reports already.
func TestAKeyThatIsExactFromNowOnClaimsWhatIsAskedFor(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: algorithm.NameAuto, Burst: 100})
	hour := 3600 * s
	for now := time.Duration(0); now < hour; now += s {
		took(t, a, now, usage.Take{Auto: true, Tokens: 10})
		if asked := a.Parent().Ask(now, "region"); asked != nil {
			a.Parent().Hear(now, asked, &claims.Leases{Rows: []claims.Lease{lease(100)}}, nil)
		}
		a.GC(now)
	}
	configured(t, a, hour, dynamicconfig.Rule{Key: "*", Limit: 1000, Burst: 100, Lease: 60 * s, Refresh: 8 * s, Parent: true, Algorithm: algorithm.NameExact})
	for now := hour; now < hour+10*s; now += s {
		took(t, a, now, usage.Take{Tokens: 10})
		asked := a.Parent().Ask(now, "region")
		if asked == nil {
			continue
		}
		if c := asked.Rows[0]; len(c.Bands) != 1 || c.Bands[0].Wants > 100 {
			t.Errorf("at %v it claims %+v, and its hosts want 10/s", now-hour, c.Bands)
		}
		a.Parent().Hear(now, asked, &claims.Leases{Rows: []claims.Lease{lease(100)}}, nil)
	}
}

// A host asks once for more than any bucket of the rule has. The cluster's part of the burst stays as
// it was.
func TestAnAskThatCanNeverPassMakesNoBurst(t *testing.T) {
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto} {
		a := below(t, dynamicconfig.Rule{Algorithm: name, Burst: 100})
		auto := name == algorithm.NameAuto
		took(t, a, 0, usage.Take{Auto: auto, Tokens: 1})
		answered(t, a, s, lease(10)) // of 1,000
		took(t, a, 2*s, usage.Take{Auto: auto, Tokens: 1e6})
		passed := 0
		for range 100 {
			if took(t, a, 30*s, usage.Take{Auto: auto, Tokens: 1}).OK {
				passed++
			}
		}
		if passed > 2 {
			t.Errorf("%s: with a hundredth of a limit whose burst is 100, %d events pass at once", name, passed)
		}
	}
}
