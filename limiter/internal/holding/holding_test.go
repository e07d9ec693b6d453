// SPDX-License-Identifier: Apache-2.0

package holding_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/holding"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/shadow"
)

const second = stage.Instant(time.Second)

// newHolder is one of hosts hosts, without remote buckets.
func newHolder(hosts int) *holder {
	interval, h := func() time.Duration { return time.Second }, &holder{hosts: hosts}
	h.of = &holding.Builder{
		Reporter: report.New(report.Config{
			Interval: interval, Timeout: interval, FallbackChanged: func(stage.Instant, *share.Base, bool) {}, Rand: rand.New(rand.NewPCG(1, 1)),
			Successor: func(_, algorithm string) *report.Subject { return h.Find(algorithm) },
		}),
		Hub: remote.NewHub(remote.HubConfig{
			Log: slog.New(slog.DiscardHandler), Background: func(f func()) { f() },
			Failures: tally.NoopScope.Counter(""), Skipped: tally.NoopScope.Counter(""),
			FallbackChanged: func(stage.Instant, *share.Base, bool) {},
			RateRule:        func(string) *dynamicconfig.Rule { return nil },
			Asking:          func(_, name string) *remote.Stage { return holding.Asking(&h.Holding, name) },
		}),
	}
	return h
}

// planOf is the Plan of a rule under algorithms that the host follows alone.
func planOf(rule dynamicconfig.Rule, algorithms ...string) *holding.Plan {
	p := &holding.Plan{Rule: &rule}
	for _, name := range algorithms {
		traits, _ := dynamicconfig.TraitsOf(name)
		p.Terms = append(p.Terms, &share.Terms{Rule: &rule, Algorithm: name, Traits: traits, Reports: !traits.Local})
	}
	return p
}

// holder changes what one key has.
type holder struct {
	holding.Holding
	of    *holding.Builder
	hosts int
}

func (h *holder) change(now stage.Instant, plan *holding.Plan) {
	old := h.Holding
	c := h.of.Begin(now, "k", &old, plan, h.hosts)
	h.Holding = c.Next
	c.End()
}

// A key that has one rule after the other, and none for a while, has no more than one bucket would
// have. A rule may have two algorithms, of which one answers, and the other may be measured.
func TestNoChangeGivesMoreThanOneBucket(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHolder(1)
		if rapid.Bool().Draw(rt, "measures") {
			h.of.Migrator = shadow.Migrator()
		}
		const burst = 20
		limit, floor := 2.0, rapid.SampledFrom([]usage.Floor{usage.FloorNone, usage.FloorUnused, usage.FloorEven, usage.FloorDrop}).Draw(rt, "floor")
		now, tokens := second, float64(burst) // of the one bucket
		type open struct {
			of      stage.Stage
			receipt stage.Receipt
		}
		var taken []open
		draw := func() *holding.Plan {
			if rapid.IntRange(0, 4).Draw(rt, "rule") == 0 {
				return nil
			}
			fallback := rapid.SampledFrom([]dynamicconfig.Fallback{dynamicconfig.FallbackEven, dynamicconfig.FallbackClosed, dynamicconfig.FallbackOpen}).Draw(rt, "fallback")
			if rapid.IntRange(0, 3).Draw(rt, "new limit") == 0 {
				limit = rapid.SampledFrom([]float64{2, 1, 4}).Draw(rt, "limit")
			}
			rule := dynamicconfig.Rule{Key: "k", Limit: rate.Limit(limit), Burst: burst, Fallback: fallback}
			algorithms := rapid.Permutation([]string{"even", "elastic", "request-weighted"}).Draw(rt, "algorithms")
			plan := planOf(rule, algorithms[:rapid.IntRange(1, 2).Draw(rt, "how many")]...)
			if len(plan.Terms) == 2 {
				mode := rapid.SampledFrom([]dynamicconfig.Mode{
					dynamicconfig.ModeOld, dynamicconfig.ModeOldShadowNew, dynamicconfig.ModeNewShadowOld, dynamicconfig.ModeNew, dynamicconfig.ModeDisabled,
				}).Draw(rt, "mode")
				plan.Rule.Migration = &dynamicconfig.Migration{From: algorithms[0], To: algorithms[1], Mode: mode}
				plan.Answers = plan.Rule.Answering()
			}
			return plan
		}
		// With grants, a host has two levels: what waits or comes back under one is not known to the
		// other at once. And what grants do not limit, or what a fallback did not before, is full.
		grants := rapid.Bool().Draw(rt, "grants")
		refill := func() {
			if grants && h.Stage != nil && h.Level(now).Limit == rate.Inf {
				tokens = burst
			}
		}
		h.change(now, draw())
		rt.Repeat(map[string]func(*rapid.T){
			"change": func(*rapid.T) {
				refill()
				h.change(now, draw())
			},
			"time": func(rt *rapid.T) {
				passed := time.Duration(rapid.Int64Range(1, int64(5*time.Second)).Draw(rt, "passed"))
				now, tokens = now.Add(passed), min(tokens+limit*passed.Seconds(), burst)
			},
			"take": func(rt *rapid.T) {
				if h.Stage == nil || h.Level(now).Limit == rate.Inf {
					return
				}
				n := rapid.Int64Range(1, 20).Draw(rt, "n")
				longest := time.Duration(0)
				if !grants {
					longest = rapid.SampledFrom([]time.Duration{0, 0, 2 * time.Second}).Draw(rt, "longest")
				}
				if v, receipt := h.Stage.Take(context.Background(), stage.Request{Now: now, N: n, Longest: longest}); v.OK() {
					if tokens -= float64(n); tokens+float64(limit)*v.Wait.Seconds() < -1e-3 {
						rt.Fatalf("one bucket had %v tokens, and %d passed after %v", tokens+float64(n), n, v.Wait)
					}
					taken = append(taken, open{h.Stage, receipt})
				}
			},
			"grant": func(rt *rapid.T) {
				if !grants {
					return
				}
				refill()
				for _, p := range h.Parts() {
					if rapid.Bool().Draw(rt, "granted") {
						p.Common().SetGrant(share.Grant{
							Given: true, Floor: rapid.SampledFrom([]usage.Floor{floor, usage.FloorNone, usage.FloorDrop}).Draw(rt, "this floor"),
							Weight: rapid.Float64Range(0, 1).Draw(rt, "weight"), Burst: rapid.Float64Range(0, burst).Draw(rt, "granted burst"),
							Until: now.Add(time.Duration(rapid.Int64Range(0, int64(5*time.Second)).Draw(rt, "lease"))),
						})
					}
					p.Steer(now, h.hosts) // or a lease ends
				}
			},
			"settle": func(rt *rapid.T) {
				if len(taken) == 0 || grants {
					return
				}
				i := rapid.IntRange(0, len(taken)-1).Draw(rt, "which")
				o := taken[i]
				taken = append(taken[:i:i], taken[i+1:]...)
				actual := rapid.Int64Range(0, o.receipt.N).Draw(rt, "actual")
				o.of.Settle(now, o.receipt, actual)
				tokens = min(tokens+float64(o.receipt.N-actual), burst)
			},
		})
	})
}

// A grant becomes smaller, and the rule goes, whose fallback was open. The one that comes next knows what was used.
func TestASmallerGrantHidesNothingUnderAnOpenFallback(t *testing.T) {
	for _, algorithm := range []string{"elastic", "request-weighted"} {
		h := newHolder(1)
		rule := dynamicconfig.Rule{Key: "k", Limit: 2, Burst: 20, Fallback: dynamicconfig.FallbackOpen}
		h.change(second, planOf(rule, algorithm))
		for _, burst := range []float64{12, 3} {
			h.Answering().Common().SetGrant(share.Grant{Given: true, Weight: 1, Burst: burst, Until: 10 * second})
			h.Answering().Steer(second, 1)
			h.Stage.Take(context.Background(), stage.Request{Now: second, N: 8, Kind: stage.Final})
		}
		h.change(second, nil)
		rule.Fallback = dynamicconfig.FallbackEven
		if h.change(second, planOf(rule, "even")); h.Level(second).Tokens > 12+1e-6 {
			t.Errorf("%s: %v tokens are left of 20, and 8 were used", algorithm, h.Level(second).Tokens)
		}
	}
}

// A closed fallback leaves nothing for the algorithm that follows, so an event waits although the key lacks nothing. What comes
// in meanwhile counts once: the key lacks what was used.
func TestWhatWaitsAfterAClosedFallbackIsCountedOnce(t *testing.T) {
	open := dynamicconfig.Rule{Key: "k", Limit: 2, Burst: 20, Fallback: dynamicconfig.FallbackEven}
	closed, disabled := open, open
	closed.Fallback = dynamicconfig.FallbackClosed
	disabled.Migration = &dynamicconfig.Migration{From: "even", To: "elastic", Mode: dynamicconfig.ModeDisabled}
	unlimited := planOf(disabled, "even", "elastic")
	unlimited.Answers = -1
	for _, tt := range []struct {
		before, after stage.Instant // of the rule that has the event wait, how long nothing is used
		then          []*holding.Plan
		left          float64
	}{
		{0, second / 10, []*holding.Plan{nil, planOf(closed, "elastic"), nil}, 19.2},
		{second / 10, 0, []*holding.Plan{planOf(closed, "elastic"), unlimited}, 19},
	} {
		h, now := newHolder(1), second
		h.change(now, planOf(closed, "elastic"))
		h.change(now, planOf(open, "even"))
		now += tt.before
		if v, _ := h.Stage.Take(context.Background(), stage.Request{Now: now, N: 1, Longest: time.Second}); !v.OK() || v.Wait == 0 {
			t.Fatalf("%+v", v)
		}
		for i, plan := range tt.then {
			if h.change(now, plan); i == 0 {
				now += tt.after
			}
		}
		if h.change(now, planOf(open, "even")); h.Level(now).Tokens > tt.left+1e-6 {
			t.Errorf("%d changes: %v tokens are left of 20, want %v", len(tt.then), h.Level(now).Tokens, tt.left)
		}
	}
}

// A grant becomes smaller under a closed fallback, or its lease ends, and the rule goes. The one that comes next knows what was used.
func TestASmallerGrantHidesNothingUnderAClosedFallback(t *testing.T) {
	for _, algorithm := range []string{"elastic", "request-weighted"} {
		for _, then := range []share.Grant{
			{Given: true, Weight: 1, Burst: 3, Until: 20 * second},
			{Given: true, Weight: 1, Burst: 3, Until: 6 * second},
			{Given: true, Weight: 1, Burst: 3, Until: 6 * second, Floor: usage.FloorDrop},
		} {
			h, now := newHolder(1), second
			rule := dynamicconfig.Rule{Key: "k", Limit: 2, Burst: 20, Fallback: dynamicconfig.FallbackClosed}
			h.change(now, planOf(rule, algorithm))
			grant := func(g share.Grant) {
				h.Answering().Common().SetGrant(g)
				h.Answering().Steer(now, 1)
			}
			grant(share.Grant{Given: true, Weight: 1, Burst: 12, Until: 20 * second})
			now += 5 * second
			if v, _ := h.Stage.Take(context.Background(), stage.Request{Now: now, N: 8, Kind: stage.Final}); !v.OK() {
				t.Fatal("a grant of 12 that has filled for 5 s refuses 8")
			}
			grant(then)
			h.change(now, nil)
			rule.Fallback = dynamicconfig.FallbackEven
			if h.change(now, planOf(rule, "even")); h.Level(now).Tokens > 12+1e-6 {
				t.Errorf("%s, then %+v: %v tokens are left of 20, and 8 were used", algorithm, then, h.Level(now).Tokens)
			}
		}
	}
}

// A migration whose fallback was open gives no second burst once it is not, in the same mode.
func TestAMigrationThatLetAllThroughGivesNoSecondBurst(t *testing.T) {
	h := newHolder(1)
	h.of.Migrator = shadow.Migrator()
	rule := dynamicconfig.Rule{Key: "k", Limit: 2, Burst: 20, Fallback: dynamicconfig.FallbackOpen}
	h.change(second, planOf(rule, "even"))
	h.Stage.Take(context.Background(), stage.Request{Now: second, N: 15, Kind: stage.Final})
	rule.Migration = &dynamicconfig.Migration{From: "elastic", To: "even", Mode: dynamicconfig.ModeOldShadowNew}
	h.change(second, planOf(rule, "elastic", "even"))
	rule.Fallback = dynamicconfig.FallbackEven
	h.change(second, planOf(rule, "elastic", "even"))
	if tokens := h.Level(second).Tokens; tokens > 5+1e-6 {
		t.Errorf("%v tokens are left of 20, and 15 were used", tokens)
	}
}

// A rule that comes back after another one, whose grant had a small bucket, knows what was used
// before that, by whichever part, and what callers wait for.
func TestARuleThatComesBackAfterAGrantGivesNoSecondBurst(t *testing.T) {
	even := dynamicconfig.Rule{Key: "k", Limit: 2, Burst: 20, Fallback: dynamicconfig.FallbackEven}
	migrates := even
	migrates.Migration = &dynamicconfig.Migration{From: "even", To: "elastic", Mode: dynamicconfig.ModeOld}
	for name, tt := range map[string]struct {
		first, second *holding.Plan
		uses          [3]int64 // under first, and under second before and after its grant
		waited        int64
	}{
		"new parts":                 {planOf(even, "even"), planOf(migrates, "elastic", "request-weighted"), [3]int64{10, 1, 1}, 0},
		"a part that was not asked": {planOf(migrates, "even", "elastic"), planOf(even, "elastic"), [3]int64{10, 1, 1}, 0},
		"a debt":                    {planOf(even, "elastic"), planOf(even, "elastic"), [3]int64{7, 13, 0}, 1},
	} {
		h := newHolder(1)
		left := 20.0
		use := func(n int64) {
			left -= float64(n)
			h.Stage.Take(context.Background(), stage.Request{Now: second, N: n, Longest: time.Minute, Kind: stage.Final})
		}
		h.change(second, tt.first)
		use(tt.uses[0])
		h.change(second, tt.second)
		use(tt.uses[1])
		use(tt.waited)
		h.Answering().Common().SetGrant(share.Grant{Given: true, Weight: 1, Burst: 1, Until: 10 * second})
		h.Answering().Steer(second, 1)
		use(tt.uses[2])
		h.change(second, nil)
		h.change(second, planOf(even, "even"))
		if tokens := h.Level(second).Tokens; tokens > left+1e-6 {
			t.Errorf("%s: %v tokens are left, want %v", name, tokens, left)
		}
	}
}

// Slots that are held stay held, whatever the rule is, so no more are in flight than the
// largest limit that there was since.
func TestHeldSlotsCountThroughChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := newHolder(1)
		const most = 5
		now := second
		var held []stage.Hold
		draw := func() *holding.Plan {
			rule := dynamicconfig.Rule{Key: "k", Limit: most, InFlight: true, Fallback: dynamicconfig.FallbackEven}
			switch rapid.IntRange(0, 4).Draw(rt, "rule") {
			case 0:
				return nil
			case 1:
				return planOf(dynamicconfig.Rule{Key: "k", Limit: 1, Burst: 1}, "even")
			}
			return planOf(rule, rapid.SampledFrom([]string{"even", "fair-share", "static"}).Draw(rt, "algorithm"))
		}
		h.change(now, draw())
		rt.Repeat(map[string]func(*rapid.T){
			"change": func(*rapid.T) { now++; h.change(now, draw()) },
			"acquire": func(rt *rapid.T) {
				if h.Slots == nil {
					return
				}
				hold, err := h.Slots.TryAcquire(now, 1)
				if (err == nil) != (len(held) < most) {
					rt.Fatalf("%d of %d are held: %v", len(held), most, err)
				}
				if err == nil {
					held = append(held, hold)
				}
			},
			"release": func(rt *rapid.T) {
				if len(held) > 0 {
					held[0].Release()
					held[0].Release()
					held = held[1:]
				}
			},
		})
	})
}

// A change of the rule keeps the parts that both rules have.
func TestAChangeKeepsWhatBothHave(t *testing.T) {
	h := newHolder(4)
	rule := dynamicconfig.Rule{Key: "k", Limit: 100, Burst: 100}
	h.change(second, planOf(rule, "elastic"))
	part := h.Answering()
	h.State(second, 7)
	rule.Limit = 200
	h.change(second, planOf(rule, "elastic"))
	if h.Answering() != part || float64(h.Level(second).Limit) != 50 {
		t.Errorf("another part, of %+v", h.Level(second))
	}
	h.change(second, nil) // the demand that was stated waits for a rule
	if h.Has() || h.Full(second) {
		t.Error("without a rule, there are parts, or nothing is remembered")
	}
	h.change(second, planOf(rule, "elastic"))
	if wants, ok := h.Answering().Common().Stated(); !ok || wants != 7 || h.Answering() == part {
		t.Errorf("the demand is %v, %v", wants, ok)
	}
}
