// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
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

// The tests in this file are defects that the model tests have found, each as a short trace.

const ms = stage.Instant(time.Millisecond)

func groupOf(t *testing.T, hosts int, rule dynamicconfig.Rule, options ...limiter.Option) *limiter.Group {
	t.Helper()
	return limiter.NewGroup(configOf(t, rule), hosts, options...)
}

func configOf(t *testing.T, rule dynamicconfig.Rule) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Config{Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{rule}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// takes asks for n tokens at now and reports whether it got them.
func takes(l *limiter.Limiter, now stage.Instant, n int64) bool {
	v, _ := l.Stage().Take(context.Background(), stage.Request{Now: now, N: n, Kind: stage.Final})
	return v.OK()
}

// grants answers all that g reports at now.
func grants(t *testing.T, g *limiter.Group, now stage.Instant, weight, burst float64, lease time.Duration) {
	t.Helper()
	for _, b := range driver.Of(g).Report(now) {
		if err := driver.Of(g).Apply(now, b, nil, grantOf(b.Usage.Len(), weight, burst, lease)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAKeyOfASharedRuleOutlivesTheCommonOne(t *testing.T) {
	g := groupOf(t, 1, dynamicconfig.Rule{Key: "k:*", Shared: true, Limit: 10, Algorithm: limiter.Even, IdleAfter: 3 * time.Second})
	l := g.For("k:a")
	takes(l, 1, 0)
	for _, at := range []stage.Instant{1000, 1900, 2900, 3500} {
		driver.Of(g).Report(at * ms)
	}
	_, common := g.InspectAt((3500 * ms).Time(), "k:*")
	if _, live := g.InspectAt((3500 * ms).Time(), "k:a"); common || !live {
		t.Fatalf("the common key is live: %v; k:a is live: %v", common, live)
	}
	if !takes(l, 3600*ms, 1) { // it looped until a report forgot k:a
		t.Error("refused")
	}
}

func TestAHeldLimiterIsNotRefusedWhileItsKeyIsLive(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "k:*", Limit: 10, Algorithm: limiter.Even, MaxKeys: 1, IdleAfter: 3 * time.Second}
	g := groupOf(t, 1, rule)
	first, held := g.For("k:a"), g.For("k:b")
	if !takes(first, 0, 1) || takes(held, 0, 1) {
		t.Fatal("one key is to be allowed")
	}
	for at := range stage.Instant(10) {
		driver.Of(g).Report(at * 1000 * ms)
	}
	if !takes(g.For("k:b"), 10_000*ms, 1) || !takes(held, 10_000*ms, 1) {
		t.Error("k:b is live, and refused")
	}
}

func TestAKeyIsNotForgottenBeforeItsFallbackIsFullAgain(t *testing.T) {
	g := groupOf(t, 10, dynamicconfig.Rule{Key: "k", Limit: 10, Burst: 100, Algorithm: "request-weighted", IdleAfter: 3 * time.Second})
	l := g.For("k")
	takes(l, 0, 1)
	grants(t, g, 1000*ms, 1, 10, time.Hour)
	takes(l, 60_000*ms, 8) // of the fallback's 10, which fills at 1/s
	for at := stage.Instant(61_000); at <= 66_000; at += 1000 {
		grants(t, g, at*ms, 1, 10, 0)
	}
	if _, live := g.InspectAt((66_000 * ms).Time(), "k"); !live {
		t.Error("forgotten with 8 tokens of 10")
	}
}

func TestAChangeOfAlgorithmDoesNotGoThroughTheOldFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(stage.Now().Sub(0).Abs())
		rule := dynamicconfig.Rule{Key: "k", Limit: 2, InFlight: true, Algorithm: "fair-share", Fallback: dynamicconfig.FallbackOpen}
		g := groupOf(t, 1, rule)
		g.For("k").TryAcquire(1)
		grants(t, g, stage.Now().Add(1), 1, 0, time.Hour)
		g.For("k").TryAcquire(1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			if _, err := g.For("k").Acquire(ctx, 1); err == nil {
				t.Error("a third slot of two")
			}
		}()
		synctest.Wait()
		rule.Algorithm = limiter.Even
		g.Configure(configOf(t, rule))
		synctest.Wait()
		cancel()
		synctest.Wait()
	})
}

func TestWhatBothSidesOfAMigrationHeldIsTransferredOnce(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "k", Limit: 4, InFlight: true, Migration: &dynamicconfig.Migration{From: "even", To: "static", Mode: dynamicconfig.ModeOldShadowNew}}
	g := groupOf(t, 1, rule, limiter.WithMigration(shadow.Migrator()))
	g.For("k").TryAcquire(1)
	rule.Migration = nil
	for i, name := range []string{"even", "static"} {
		rule.Algorithm = name
		driver.Of(g).Configure(stage.Now().Add(time.Duration(i)), configOf(t, rule))
	}
	driver.Of(g).Report(stage.Now().Add(time.Second))
	if st, _ := g.Inspect("k"); len(st.Shares) != 1 || st.Shares[0].Held != 1 {
		t.Errorf("one slot is held: %+v", st.Shares)
	}
}

func TestADisabledRuleHasNoTerms(t *testing.T) {
	g := groupOf(t, 1, dynamicconfig.Rule{Key: "k", Limit: 1, Burst: 10, MaxCost: 5, Migration: &dynamicconfig.Migration{From: "even", To: "elastic", Mode: dynamicconfig.ModeDisabled}},
		limiter.WithMigration(shadow.Migrator()))
	if !takes(g.For("k"), 0, 8) {
		t.Error("refused")
	}
}

// The metric of charges counts a part of what the metric of allowed events counts. A rule that lets
// everything through counts neither.
func TestNothingIsChargedWhereEverythingIsLetThrough(t *testing.T) {
	c := dynamicconfig.Config{
		Rules: []dynamicconfig.Rule{
			{Key: "bypassed", Limit: 1, Algorithm: "even"},
			{Key: "disabled", Limit: 1, Migration: &dynamicconfig.Migration{From: "even", To: "elastic", Mode: dynamicconfig.ModeDisabled}},
			{Key: "limited", Limit: 1, Algorithm: "even"},
		},
		Overrides: []dynamicconfig.Override{{Key: "bypassed", Bypass: true, Until: time.Now().Add(time.Hour), Author: "ada", Reason: "a test"}},
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	scope := tally.NewTestScope("", nil)
	g := limiter.NewGroup(s.At(time.Now()), 1, limiter.WithMigration(shadow.Migrator()), limiter.WithScope(scope))
	for _, key := range []string{"bypassed", "disabled", "limited"} {
		g.For(key).Charge(1)
	}
	driver.Of(g).Report(stage.Now())
	for key, want := range map[string]int64{"bypassed": 0, "disabled": 0, "limited": 1} {
		got := int64(0)
		if c := scope.Snapshot().Counters()["limiter.charged+rule="+key]; c != nil {
			got = c.Value()
		}
		if got != want {
			t.Errorf("%s: %d tokens count as charged, want %d", key, got, want)
		}
	}
}

func TestAGrantHoldsNoMoreThanTheBurstOfANewRule(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "k", Limit: 10, Burst: 100, Algorithm: "request-weighted"}
	g := groupOf(t, 1, rule)
	takes(g.For("k"), 0, 1)
	grants(t, g, 1000*ms, 1, 100, time.Hour)
	rule.Burst = 10
	driver.Of(g).Configure(2000*ms, configOf(t, rule))
	if takes(g.For("k"), 3000*ms, 11) {
		t.Error("11 at once of a burst of 10")
	}
}

func TestFromRateGivesBackWhatWasTakenAtMost(t *testing.T) {
	l, at := rate.NewLimiter(10, 20), time.Now()
	s := limiter.FromRate(l).Stage()
	take := func(n int64) stage.Receipt {
		_, receipt := s.Take(t.Context(), stage.Request{Now: stage.At(at), N: n, Longest: stage.Forever})
		return receipt
	}
	take(1)
	first, second := take(20), take(1) // in debt by 2
	s.Settle(stage.At(at), first, 1)
	s.Settle(stage.At(at), second, 0)
	if got := l.TokensAt(at); got > 18.01 {
		t.Errorf("%v tokens of 20, and 2 are used", got)
	}
}
