// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/rpc"
)

// migrating is a Group whose key k goes from one algorithm to another.
func migrating(t testing.TB, hosts int, mode dynamicconfig.Mode) *limiter.Group {
	t.Helper()
	return limiter.NewGroup(stage(t, mode), hosts, limiter.WithMigration(migration))
}

func migration(old, new limiter.Stepper, mode dynamicconfig.Mode) limiter.Migrator {
	return FromSteps(old, new, mode)
}

func stage(t testing.TB, mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Config{
		Properties: dynamicconfig.Properties{UpdateInterval: time.Second},
		Rules: []dynamicconfig.Rule{{
			Key:       "k",
			Limit:     100,
			IdleAfter: time.Hour,
			Migration: &dynamicconfig.Migration{From: "request-weighted", To: "other", Mode: mode},
		}},
	}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBothAlgorithmsHearOfAllUsage(t *testing.T) {
	for _, tt := range []struct {
		mode     dynamicconfig.Mode
		old, new int64 // of 130 that were asked for, how many are reported
	}{{disabled, 0, 0}, {old, 130, 0}, {oldShadowNew, 130, 130}, {newShadowOld, 130, 130}, {onlyNew, 0, 130}} {
		g := migrating(t, 2, tt.mode)
		k := g.For("k")
		for range 130 {
			k.AllowAt(0, 1)
		}
		got := make(map[string]int64)
		for _, b := range g.Report(second) {
			for i := range b.Usage.Keys {
				got[b.Usage.Algorithm] += b.Usage.Allowed[i] + b.Usage.Rejected[i]
				if b.Usage.Allowed[i] != 50 && got[b.Usage.Algorithm] > 0 {
					t.Errorf("%v: %s allowed %d, want half the burst", tt.mode, b.Usage.Algorithm, b.Usage.Allowed[i])
				}
			}
		}
		if got["request-weighted"] != tt.old || got["other"] != tt.new {
			t.Errorf("%v: reported %v, want %d and %d", tt.mode, got, tt.old, tt.new)
		}
	}
}

// Modes, grants and lost answers come as they like. The host has half of 100/s
// at most, by every algorithm and by fallback, so that this is all it may ever
// use; and what it used is reported to each algorithm exactly once.
func TestAGroupMigratesWithoutASecondBurstOrALostCount(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		mode := rapid.SampledFrom(modes[1:]).Draw(r, "mode")
		g := migrating(t, 2, mode)
		k := g.For("k")
		now := limiter.Instant(0)
		const limit, burst = 50, 50
		allowed := 0
		asked, told := map[string]int64{}, map[string]int64{} // told and answered
		answer := func(lose bool) {
			for _, b := range g.Report(now) {
				if lose {
					g.Fail(now, b, []int{0})
					continue
				}
				err := g.Apply(now, b, nil, &rpc.Grants{
					Weight: []float64{rapid.Float64Range(0, 0.5).Draw(r, "weight")},
					Burst:  []float64{rapid.Float64Range(0, burst).Draw(r, "burst")},
					Used:   []float64{100},
					Lease:  []time.Duration{rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(r, "lease")},
				})
				if err != nil {
					r.Fatal(err)
				}
				told[b.Usage.Algorithm] += b.Usage.Allowed[0] + b.Usage.Rejected[0]
			}
		}
		for range rapid.IntRange(1, 150).Draw(r, "steps") {
			now += limiter.Instant(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 1e8), rapid.Int64Range(0, 4e9)).Draw(r, "pause"))
			switch rapid.IntRange(0, 5).Draw(r, "what") {
			case 0:
				mode = rapid.SampledFrom(modes[1:]).Draw(r, "mode")
				g.Configure(now, stage(t, mode))
			case 1, 2:
				answer(rapid.Bool().Draw(r, "lost"))
			default:
				for range rapid.IntRange(1, 60).Draw(r, "events") {
					if k.AllowAt(now, 1) {
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
				r.Fatalf("%s was asked for %d and heard of %d", algorithm, asked[algorithm], told[algorithm])
			}
		}
	})
}

// The rule gets and loses its migration while the key is in use.
func TestAMigrationBeginsAndEnds(t *testing.T) {
	plain := func(algorithm string) *dynamicconfig.Snapshot {
		s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{Key: "k", Limit: 100, Algorithm: algorithm}}}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	g := limiter.NewGroup(plain("request-weighted"), 1, limiter.WithMigration(migration))
	k := g.For("k")
	allowed := 0
	for _, next := range []*dynamicconfig.Snapshot{
		stage(t, old), stage(t, oldShadowNew), stage(t, newShadowOld), stage(t, onlyNew), plain("other"), stage(t, oldShadowNew), plain("request-weighted"),
	} {
		for range 12 {
			if k.AllowAt(0, 1) {
				allowed++
			}
		}
		g.Configure(0, next)
	}
	for k.AllowAt(0, 1) {
		allowed++
	}
	if allowed != 100 {
		t.Errorf("allowed %d at once, want the burst of 100", allowed)
	}
}
