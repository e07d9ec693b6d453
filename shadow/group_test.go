// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// snapshot is the config of one rule for the key k.
func snapshot(t testing.TB, r dynamicconfig.Rule) *dynamicconfig.Snapshot {
	t.Helper()
	r.Key, r.IdleAfter = "k", time.Hour
	s, err := dynamicconfig.Config{
		Properties: dynamicconfig.Properties{UpdateInterval: time.Second},
		Rules:      []dynamicconfig.Rule{r},
	}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// moving is the config of 100/s under an algorithm that changes.
func moving(t testing.TB, mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
	t.Helper()
	return snapshot(t, dynamicconfig.Rule{
		Limit: 100, Migration: &dynamicconfig.Migration{From: "request-weighted", To: "other", Mode: mode},
	})
}

// newGroup is a Group that migrates the key k.
func newGroup(s *dynamicconfig.Snapshot, hosts int, opts ...limiter.Option) *limiter.Group {
	return limiter.NewGroup(s, hosts, append(opts, limiter.WithMigration(Migrator()))...)
}

func TestBothAlgorithmsReportAllUsage(t *testing.T) {
	for _, tt := range []struct {
		mode     dynamicconfig.Mode
		old, new int64 // of 130 that were asked for, how many are reported
		counts   stage.Divergence
	}{
		{disabled, 0, 0, stage.Divergence{}},
		{old, 130, 0, stage.Divergence{}},
		{oldShadowNew, 130, 130, stage.Divergence{Both: 50, Neither: 80}},
		{newShadowOld, 130, 130, stage.Divergence{Both: 50, Neither: 80}},
		{onlyNew, 0, 130, stage.Divergence{}},
	} {
		g := newGroup(moving(t, tt.mode), 2)
		for range 130 {
			allow(g.For("k").Stage(), 0, 1)
		}
		if st, ok := g.InspectAt(stage.Instant(0).Time(), "k"); !ok || st.Mode != tt.mode || len(st.Shares) != 2 || st.Divergence != tt.counts {
			t.Errorf("%v: %+v, want %+v", tt.mode, st, tt.counts)
		}
		got := make(map[string]int64)
		for _, b := range driver.Of(g).Report(second) {
			got[b.Usage.Algorithm] = b.Usage.Allowed[0] + b.Usage.Rejected[0]
			if got[b.Usage.Algorithm] > 0 && b.Usage.Allowed[0] != 50 {
				t.Errorf("%v: %s allowed %d, want half the burst", tt.mode, b.Usage.Algorithm, b.Usage.Allowed[0])
			}
		}
		if got["request-weighted"] != tt.old || got["other"] != tt.new {
			t.Errorf("%v: reported %v, want %d and %d", tt.mode, got, tt.old, tt.new)
		}
	}
}

// The new algorithm has a grant of less than the old one. The metrics count
// each event once, however often the mode changes and the Group reports. Inspect has those of
// the mode.
func TestAGroupShowsHowTheAnswersDiffer(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	g := newGroup(moving(t, oldShadowNew), 1, limiter.WithScope(scope))
	k := g.For("k").Stage()
	allow(k, 0, 0)
	for _, b := range driver.Of(g).Report(second) {
		burst := map[string]float64{"request-weighted": 20, "other": 8}[b.Usage.Algorithm]
		if err := driver.Of(g).Apply(second, b, nil, grant(0, burst, time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	for i, mode := range []dynamicconfig.Mode{oldShadowNew, oldShadowNew, newShadowOld} {
		driver.Of(g).Configure(second, moving(t, mode))
		for range []int{5, 20, 1}[i] {
			allow(k, second, 1)
		}
		driver.Of(g).Report(second)
		want := []stage.Divergence{{Both: 5}, {Both: 8, OnlyOld: 12, Neither: 5}, {Neither: 1}}[i]
		if st, _ := g.InspectAt(second.Time(), "k"); st.Divergence != want {
			t.Errorf("in its mode: %+v, want %+v", st.Divergence, want)
		}
	}
	counters := scope.Snapshot().Counters()
	for by, n := range map[string]int64{"both": 8, "only_old": 12, "only_new": 0, "neither": 6, "not_measured": 0} {
		if c := counters["limiter.divergence+allowed_by="+by+",rule=k"]; c == nil || c.Value() != n {
			t.Errorf("%s: the metric is %v, want %d", by, c, n)
		}
	}
}

// grant is the grant for one row.
func grant(weight, burst float64, lease time.Duration) *usage.Grants {
	return &usage.Grants{Weight: []float64{weight}, Burst: []float64{burst}, Used: []float64{100}, Lease: []time.Duration{lease}}
}

// Modes, grants and lost answers come in any order. The host has at most half
// of 100/s, under both algorithms and their fallbacks, so it never uses more.
// Each algorithm is told of all usage exactly once.
func TestAGroupMigratesWithoutASecondBurstOrALostCount(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		mode := rapid.SampledFrom(modes[1:]).Draw(r, "mode")
		g := newGroup(moving(t, mode), 2)
		m, k := driver.Of(g), g.For("k").Stage()
		now := stage.Instant(0)
		const limit, burst = 50, 50
		allowed := 0
		asked, told := map[string]int64{}, map[string]int64{} // told is what was answered
		answer := func(lose bool) {
			for _, b := range m.Report(now) {
				if lose {
					m.Fail(now, b, []int{0})
					continue
				}
				weight, tokens := rapid.Float64Range(0, 0.5).Draw(r, "weight"), rapid.Float64Range(0, burst).Draw(r, "burst")
				lease := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(r, "lease")
				if err := m.Apply(now, b, nil, grant(weight, tokens, lease)); err != nil {
					r.Fatal(err)
				}
				told[b.Usage.Algorithm] += b.Usage.Allowed[0] + b.Usage.Rejected[0]
			}
		}
		for range rapid.IntRange(1, 150).Draw(r, "steps") {
			now += stage.Instant(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1e8), rapid.Int64Range(0, 4e9)).Draw(r, "pause"))
			switch rapid.IntRange(0, 5).Draw(r, "what") {
			case 0:
				mode = rapid.SampledFrom(modes[1:]).Draw(r, "mode")
				m.Configure(now, moving(t, mode))
			case 1, 2:
				answer(rapid.Bool().Draw(r, "lost"))
			default:
				for range rapid.IntRange(1, 60).Draw(r, "events") {
					if allow(k, now, 1) {
						allowed++
					}
					if mode != onlyNew {
						asked["request-weighted"]++
					}
					if mode != old {
						asked["other"]++
					}
				}
			}
			if most := burst + limit*now.Sub(0).Seconds(); float64(allowed) > most+1e-6 {
				r.Fatalf("allowed %d by %v, and there was only %v", allowed, now.Sub(0), most)
			}
		}
		now += second
		answer(false)
		for _, algorithm := range []string{"request-weighted", "other"} {
			if asked[algorithm] != told[algorithm] {
				r.Fatalf("%s was asked for %d and told of %d", algorithm, asked[algorithm], told[algorithm])
			}
		}
	})
}

// The rule gets and loses its migration while the key is in use.
func TestAMigrationBeginsAndEnds(t *testing.T) {
	plain := func(algorithm string) *dynamicconfig.Snapshot {
		return snapshot(t, dynamicconfig.Rule{Limit: 100, Algorithm: algorithm})
	}
	g := newGroup(plain("request-weighted"), 1)
	k := g.For("k").Stage()
	allowed := 0
	for _, next := range []*dynamicconfig.Snapshot{
		moving(t, old), moving(t, oldShadowNew), moving(t, newShadowOld), moving(t, onlyNew), plain("other"), moving(t, oldShadowNew), plain("request-weighted"),
	} {
		for range 12 {
			if allow(k, 0, 1) {
				allowed++
			}
		}
		driver.Of(g).Configure(0, next)
	}
	for allow(k, 0, 1) {
		allowed++
	}
	if allowed != 100 {
		t.Errorf("allowed %d at once, want the burst of 100", allowed)
	}
}

func TestStatedDemandReachesBothAlgorithms(t *testing.T) {
	for name, s := range map[string]*dynamicconfig.Snapshot{"rates": moving(t, oldShadowNew), "slots": movingSlots(t, oldShadowNew)} {
		g := newGroup(s, 1)
		g.For("k").SetDemand(7)
		batches := driver.Of(g).Report(stage.Now().Add(time.Second))
		for _, b := range batches {
			if b.Usage.Wants[0] != 7 {
				t.Errorf("%s, %s: %v", name, b.Usage.Algorithm, b.Usage.Wants)
			}
		}
		if len(batches) != 2 {
			t.Errorf("%s: %d batches", name, len(batches))
		}
	}
}
