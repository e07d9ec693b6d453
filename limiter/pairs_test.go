// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// configUnder is the config of one rule, and of an override of it.
func configUnder(t *testing.T, rule dynamicconfig.Rule, overrides ...dynamicconfig.Override) *dynamicconfig.Snapshot {
	t.Helper()
	for i := range overrides {
		overrides[i].Key, overrides[i].Until, overrides[i].Author, overrides[i].Reason = rule.Key, time.Now().Add(time.Hour), "ada", "a test"
	}
	s, err := dynamicconfig.Config{
		Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{rule}, Overrides: overrides,
	}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s.At(time.Now())
}

// Under a bypass, nothing is limited, and so neither side of a migration allows or refuses
// anything. What was counted before and afterwards counts.
func TestABypassOfSlotsIsNoAnswerOfAMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rule := dynamicconfig.Rule{
			Key: "k", Limit: 4, InFlight: true, Lease: 10 * time.Second, IdleAfter: time.Hour,
			Migration: &dynamicconfig.Migration{From: "static", To: "fair-share", Mode: dynamicconfig.ModeOldShadowNew},
		}
		scope := tally.NewTestScope("", nil)
		g := limiter.NewGroup(configUnder(t, rule), 1, limiter.WithMigration(shadow.Migrator()), limiter.WithScope(scope))
		acquire := func(n int) {
			if release, err := g.For("k").Acquire(context.Background(), n); err != nil {
				t.Error(err)
			} else {
				release()
			}
		}
		acquire(1)
		for range 2 {
			g.Configure(configUnder(t, rule, dynamicconfig.Override{Bypass: true}))
			acquire(20)
			driver.Of(g).Report(stage.Now())
			acquire(20)
		}
		if st, _ := g.Inspect("k"); st.Divergence != (stage.Divergence{Both: 1}) {
			t.Errorf("during the bypass: %+v", st.Divergence)
		}
		g.Configure(configUnder(t, rule))
		acquire(2)
		if st, _ := g.Inspect("k"); st.Divergence != (stage.Divergence{Both: 3}) {
			t.Errorf("afterwards: %+v", st.Divergence)
		}
		driver.Of(g).Report(stage.Now())
		for name, c := range scope.Snapshot().Counters() {
			if c.Tags()["allowed_by"] == "both" && c.Value() != 3 {
				t.Errorf("%s is %d", name, c.Value())
			}
		}
	})
}

// A reset fills the remote bucket, too. A migration does not charge that bucket afterwards
// with what was used before the reset.
func TestAResetForgivesWhatAMigrationDidNotAskElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &remoteRef{buckets: make(map[string]*remoteBucket)}
		rule := dynamicconfig.Rule{
			Key: "k", Limit: 0.001, Burst: 20, IdleAfter: time.Hour,
			Migration: &dynamicconfig.Migration{From: "even", To: "redis", Mode: dynamicconfig.ModeOld},
		}
		g := limiter.NewGroup(configUnder(t, rule), 1, limiter.WithMigration(shadow.Migrator()), limiter.WithRemote("redis", remote), driver.WithBackground(remote.background))
		use := func(n int) {
			if !g.For("k").AllowN(time.Now(), n) {
				t.Errorf("%d are refused", n)
			}
		}
		use(15)
		if err := g.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		use(3)
		rule.Migration.Mode = dynamicconfig.ModeNew
		g.Configure(configUnder(t, rule))
		use(17)
		if g.For("k").Allow() {
			t.Error("more than the burst is allowed since the reset")
		}
	})
}

// A caller takes tokens, then the rule names an algorithm that asks elsewhere, and the caller gives
// tokens back. That bucket, which was charged with them, gets them back, too. Under auto, the
// owner learns that from the host's reports: to give it tokens as well would be once too often.
func TestWhatIsGivenBackAfterAChangeToARemoteBucketIsGivenBackThere(t *testing.T) {
	for _, before := range []string{"even", "elastic", "request-weighted"} {
		for after, want := range map[string]float64{"redis": 13, "auto": 5} {
			synctest.Test(t, func(t *testing.T) {
				remote := &remoteRef{buckets: make(map[string]*remoteBucket)}
				rule := dynamicconfig.Rule{Key: "k", Limit: 0.001, Burst: 20, IdleAfter: time.Hour, Algorithm: before}
				g := limiter.NewGroup(configUnder(t, rule), 1, limiter.WithRemote("redis", remote), limiter.WithRemote("auto", remote), driver.WithBackground(remote.background))
				k := g.For("k")
				taken, other := k.Take(t.Context(), 10, 0), k.Take(t.Context(), 5, 0)
				configure := func(algorithm string) {
					rule.Algorithm = algorithm
					g.Configure(configUnder(t, rule))
				}
				configure(after)
				taken.Settle(2)
				if left := remote.bucket("k").tokens; math.Abs(left-want) > 0.1 {
					t.Errorf("%s to %s: 7 are used, and %v are left", before, after, left)
				}
				configure(before)
				configure(after)
				other.Cancel()
				other.Cancel()
				if left := remote.bucket("k").tokens; left > 18.1 {
					t.Errorf("%s to %s and back: 2 are used, and %v are left", before, after, left)
				}
			})
		}
	}
}

// A reset fills the remote bucket. What callers give back of the time before the rule asked
// there does not fill it again.
func TestWhatIsGivenBackAfterAResetIsNotGivenBackElsewhereAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &remoteRef{buckets: make(map[string]*remoteBucket)}
		rule := dynamicconfig.Rule{Key: "k", Limit: 0.001, Burst: 20, IdleAfter: time.Hour, Algorithm: "even"}
		g := limiter.NewGroup(configUnder(t, rule), 1, limiter.WithRemote("redis", remote), driver.WithBackground(remote.background))
		k := g.For("k")
		taken := k.Take(t.Context(), 10, 0)
		rule.Algorithm = "redis"
		g.Configure(configUnder(t, rule))
		if err := g.Reset(t.Context(), "k"); err != nil {
			t.Fatal(err)
		}
		if !k.AllowN(time.Now(), 18) {
			t.Fatal("the bucket is not full after the reset")
		}
		taken.Cancel()
		if left := remote.bucket("k").tokens; left > 2.1 {
			t.Errorf("18 of 20 were used since the reset, and %v are left", left)
		}
	})
}

// The host's own bucket keeps what the remote bucket, which answered before, gets back: it shows fewer tokens from
// then on. The remote bucket, when it answers again, is charged as deep a debt all the same.
func TestARemoteBucketThatAnswersAgainLacksWhatItMissedAlsoIfItGotTokensBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &remoteRef{buckets: make(map[string]*remoteBucket)}
		rule := dynamicconfig.Rule{Key: "k", Limit: 2, Burst: 20, IdleAfter: time.Hour, Migration: &dynamicconfig.Migration{From: "redis", To: "even", Mode: dynamicconfig.ModeOldShadowNew}}
		g := limiter.NewGroup(configUnder(t, rule), 1, limiter.WithMigration(shadow.Migrator()), limiter.WithRemote("redis", remote), driver.WithBackground(remote.background))
		mode := func(to dynamicconfig.Mode) {
			next := *rule.Migration
			next.Mode, rule.Migration = to, &next
			g.Configure(configUnder(t, rule))
		}
		k := g.For("k")
		k.Charge(20)
		mode(dynamicconfig.ModeOld)
		taken := k.ReserveN(time.Now(), 1)
		mode(dynamicconfig.ModeNewShadowOld)
		taken.Cancel()
		k.Charge(36) // one bucket would have -36
		mode(dynamicconfig.ModeOldShadowNew)
		mode(dynamicconfig.ModeNew)
		k.Charge(4)
		time.Sleep(20 * time.Second)
		mode(dynamicconfig.ModeOldShadowNew)
		if left := remote.bucket("k").tokens; left > 0.001 {
			t.Errorf("one bucket would have no tokens, and %v are left", left)
		}
	})
}

// A rule with many keys, each of which is used now and then, is compared by all of them: hosts forget a key soon after its
// last use, and an operator would be told of those alone that are in use at the moment.
func TestAMigrationIsComparedByKeysThatAreForgottenToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := func(mode dynamicconfig.Mode, limit rate.Limit) *dynamicconfig.Snapshot {
			return configUnder(t, dynamicconfig.Rule{
				Key: "k:*", Limit: limit, Burst: 10, IdleAfter: 20 * time.Second,
				Migration: &dynamicconfig.Migration{From: "even", To: "elastic", Mode: mode},
			})
		}
		g := limiter.NewGroup(under(dynamicconfig.ModeOldShadowNew, 10), 1, limiter.WithMigration(shadow.Migrator()))
		want := func(when string, both int64) {
			t.Helper()
			driver.Of(g).Report(stage.Now())
			got := map[string]stage.Divergence{}
			g.Compared(func(rule string, d stage.Divergence) { got[rule] = d })
			if len(got) > 1 || got["k:*"] != (stage.Divergence{Both: both}) {
				t.Errorf("%s: %+v, want %d", when, got, both)
			}
		}
		g.For("k:a").Allow()
		g.For("k:b").AllowN(time.Now(), 2)
		want("in use", 3)
		for range 10 {
			time.Sleep(5 * time.Second)
			driver.Of(g).Report(stage.Now())
		}
		if n := len(g.Keys()); n != 0 {
			t.Errorf("%d keys are in use", n)
		}
		want("forgotten", 3)
		g.For("k:a").Allow()
		want("used again", 4)
		g.Configure(under(dynamicconfig.ModeOldShadowNew, 20))
		g.For("k:a").Allow()
		want("under another limit", 5)
		g.Configure(under(dynamicconfig.ModeNewShadowOld, 20))
		want("in another mode", 0)
		g.For("k:b").Allow()
		want("in another mode, after one", 1)
	})
}

// When a key gets another rule, its comparison begins again, and so it does when its rule goes from tokens to slots.
func TestEachRuleIsComparedByItself(t *testing.T) {
	for name, next := range map[string]dynamicconfig.Rule{
		"another rule": {Key: "k", Limit: 1000},
		"slots":        {Key: "*", Limit: 10, InFlight: true, Lease: 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			under := func(rules ...dynamicconfig.Rule) *dynamicconfig.Snapshot {
				for i := range rules {
					rules[i].Migration = &dynamicconfig.Migration{From: "static", To: "fair-share", Mode: dynamicconfig.ModeOldShadowNew}
				}
				s, err := dynamicconfig.Config{Rules: rules}.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			g := limiter.NewGroup(under(dynamicconfig.Rule{Key: "*", Limit: 100}), 1, limiter.WithMigration(shadow.Migrator()))
			g.For("k").AllowN(time.Now(), 50)
			driver.Of(g).Report(stage.Now())
			g.Configure(under(next))
			if release, ok := g.For("k").TryAcquire(1); ok {
				release()
			} else {
				g.For("k").Allow()
			}
			driver.Of(g).Report(stage.Now())
			want := stage.Divergence{Both: 1}
			if st, _ := g.Inspect("k"); st.Divergence != want {
				t.Errorf("%s: the key has %+v", name, st.Divergence)
			}
			g.Compared(func(_ string, d stage.Divergence) {
				if d != want {
					t.Errorf("%s: the rule has %+v", name, d)
				}
			})
		})
	}
}

// What was compared in one mode says nothing of the next one: an operator would go on from it at once. The
// counters, which only grow, have both.
func TestEachModeOfAMigrationIsComparedByItself(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			scope := tally.NewTestScope("", nil)
			under := func(mode dynamicconfig.Mode, limit rate.Limit, from, to string) *dynamicconfig.Snapshot {
				rule := dynamicconfig.Rule{
					Key: "k", Limit: limit, Burst: float64(limit), InFlight: inFlight, IdleAfter: time.Hour,
					Migration: &dynamicconfig.Migration{From: from, To: to, Mode: mode},
				}
				if inFlight {
					rule.Burst, rule.Lease = 0, 10*time.Second
				}
				return configUnder(t, rule)
			}
			from, to := "even", "elastic"
			if inFlight {
				from, to = "static", "fair-share"
			}
			g := limiter.NewGroup(under(dynamicconfig.ModeOldShadowNew, 10, from, to), 1, limiter.WithMigration(shadow.Migrator()), limiter.WithScope(scope))
			use := func(n int) {
				if !inFlight {
					g.For("k").AllowN(time.Now(), n)
				} else if release, err := g.For("k").Acquire(t.Context(), n); err != nil {
					t.Error(err)
				} else {
					release()
				}
			}
			want := func(when string, both int64) {
				t.Helper()
				if st, _ := g.Inspect("k"); st.Divergence != (stage.Divergence{Both: both}) {
					t.Errorf("in flight %t, %s: %+v, want %d", inFlight, when, st.Divergence, both)
				}
			}
			use(3)
			want("first", 3)
			g.Configure(under(dynamicconfig.ModeOldShadowNew, 20, from, to))
			use(1)
			want("under another limit in the same mode", 4)
			g.Configure(under(dynamicconfig.ModeNewShadowOld, 20, from, to))
			want("in another mode", 0)
			use(2)
			want("in another mode, after 2", 2)
			g.Configure(under(dynamicconfig.ModeNewShadowOld, 20, to, from))
			want("of another pair", 0)
			use(1)
			driver.Of(g).Report(stage.Now())
			for name, c := range scope.Snapshot().Counters() {
				if c.Tags()["allowed_by"] == "both" && c.Value() != 7 {
					t.Errorf("in flight %t: %s is %d, want 7", inFlight, name, c.Value())
				}
			}
		})
	}
}

// Events that cost more than any may are no demand. But the key is used, and what was rejected stays counted.
func TestAKeyWhoseEventsAllCostTooMuchIsInUse(t *testing.T) {
	for _, algorithm := range []string{"even", "elastic"} {
		synctest.Test(t, func(t *testing.T) {
			g := limiter.NewGroup(configUnder(t, dynamicconfig.Rule{Key: "k", Limit: 100, Burst: 5, IdleAfter: 5 * time.Second, Algorithm: algorithm}), 1)
			rejected := int64(0)
			for range 20 {
				g.For("k").AllowN(time.Now(), 10)
				rejected += 10
				time.Sleep(time.Second)
				driver.Of(g).Report(stage.Now())
				if st, ok := g.Inspect("k"); !ok || st.Shares[0].Rejected != rejected {
					t.Fatalf("%s: in use: %t, and of %d are rejected: %+v", algorithm, ok, rejected, st.Shares)
				}
			}
			for range 10 {
				time.Sleep(time.Second)
				driver.Of(g).Report(stage.Now())
			}
			if len(g.Keys()) != 0 {
				t.Errorf("%s: the key stays in use", algorithm)
			}
		})
	}
}
