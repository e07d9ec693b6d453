// SPDX-License-Identifier: Apache-2.0

package shadow

import (
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
)

// measured are the metrics of scope about how the two sides answered.
func measured(scope tally.TestScope) map[string]int64 {
	m := make(map[string]int64)
	for _, c := range scope.Snapshot().Counters() {
		if by := c.Tags()["allowed_by"]; c.Value() != 0 && by != "" {
			m[by] += c.Value()
		}
	}
	return m
}

func TestMetricsHaveWhatTheLastIntervalOfAMigrationMeasured(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	g := newGroup(moving(t, oldShadowNew), 1, limiter.WithScope(scope))
	for range 10 {
		allow(g.For("k").Stage(), 0, 1)
	}
	driver.Of(g).Configure(1, snapshot(t, dynamicconfig.Rule{Limit: 100, Algorithm: "other"}))
	driver.Of(g).Report(stage.Instant(time.Second))
	if m := measured(scope); m["both"] != 10 {
		t.Errorf("%v, want 10 that both allowed", m)
	}
}

func TestTheDivergenceOfSlotsIsShown(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	g := newGroup(movingSlots(t, oldShadowNew), 1, limiter.WithScope(scope))
	now := stage.Now()
	for range 12 {
		g.For("k").TryAcquire(1)
	}
	want := stage.Divergence{Both: 10, Neither: 2}
	if st, _ := g.Inspect("k"); st.Divergence != want {
		t.Errorf("%+v, want %+v", st.Divergence, want)
	}
	driver.Of(g).Report(now.Add(time.Second))
	if m := measured(scope); m["both"] != 10 || m["neither"] != 2 {
		t.Errorf("the metrics say %v", m)
	}
}

// A limit that is not enforced lets the event pass without taking tokens, but
// the other side took some.
func TestTheShadowOfASoftLimitIsSettled(t *testing.T) {
	s := snapshot(t, dynamicconfig.Rule{Limit: 0.001, Burst: 1, Algorithm: "even", Enforce: dynamicconfig.Soft})
	for _, tt := range []struct {
		settle func(*limiter.Estimate)
		left   float64
	}{
		{func(e *limiter.Estimate) { e.Cancel() }, 100},
		{func(e *limiter.Estimate) { e.Settle(20) }, 80},
		{func(e *limiter.Estimate) { e.Settle(60) }, 40},
	} {
		for _, nested := range []bool{false, true} {
			k, beside := limiter.NewGroup(s, 1).For("k"), limiter.NewBucket(0.001, 100)
			k.Allow()
			pair := New(beside, k, newShadowOld)
			if nested {
				pair = New(pair, limiter.NewBucket(1, 1), old)
			}
			e := pair.Take(t.Context(), 50, 0)
			tt.settle(e)
			if got := math.Round(beside.Tokens()); e.Decision().Reason != limiter.Soft || got != tt.left {
				t.Errorf("%+v leaves %v tokens in the shadow, want %v", e.Decision(), got, tt.left)
			}
		}
	}
}

func TestANewLimitForgetsNotWhatWasUsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		remote := &owner{bucket: newBucket(t, 0, 100)}
		config := func(limit rate.Limit, mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
			return snapshot(t, dynamicconfig.Rule{Limit: limit, Burst: 100, Migration: &dynamicconfig.Migration{From: "even", To: "exact", Mode: mode}})
		}
		g := newGroup(config(0.01, old), 1, limiter.WithRemote("exact", remote))
		if !g.For("k").AllowN(time.Now(), 90) {
			t.Fatal("it is refused")
		}
		g.Configure(config(0.02, old))
		g.Configure(config(0.02, onlyNew))
		synctest.Wait()
		if _, charged := remote.take(); charged != 90 {
			t.Errorf("%v tokens are charged to the new side, want 90", charged)
		}
	})
}
