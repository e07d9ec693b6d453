// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

func TestDecisionsSayWhy(t *testing.T) {
	dynamic := alone(10, 10)
	dynamic.Key, dynamic.MaxKeys = "d:*", 2
	closed := weighted(10)
	closed.Key, closed.Fallback = "closed", dynamicconfig.FallbackClosed
	open := weighted(10)
	open.Key, open.Fallback = "open", dynamicconfig.FallbackOpen
	slots := inFlightRule(10)
	slots.Key = "slots"
	zero := alone(0, 0)
	zero.Key = "zero"
	moving := alone(10, 10)
	moving.Key, moving.Migration = "moving", &dynamicconfig.Migration{From: "mine", To: "even", Mode: dynamicconfig.ModeNew}
	bypass := moving
	bypass.Key, bypass.Migration = "bypass", &dynamicconfig.Migration{From: "mine", To: "even", Mode: dynamicconfig.ModeDisabled}
	s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{alone(10, 10), dynamic, closed, open, slots, zero, moving, bypass}, Unmatched: dynamicconfig.UnmatchedDeny}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	g := NewGroup(s, 2)
	inf := math.Inf(1)
	for i, tt := range []struct {
		key     string
		n       int
		longest time.Duration
		want    Decision
	}{
		{"k", 2, 0, Decision{OK: true, Limit: 5, Burst: 5, Left: 3, By: "even"}},
		{"k", 6, 0, Decision{Reason: TooCostly, Limit: 5, Burst: 5, Left: 3, By: "even"}},
		{"k", 4, 0, Decision{Reason: Limited, RetryAfter: time.Second / 5, Limit: 5, Burst: 5, Left: 3, By: "even"}},
		{"k", 4, 100 * time.Millisecond, Decision{Reason: Limited, RetryAfter: time.Second / 10, Limit: 5, Burst: 5, Left: 3, By: "even"}},
		{"k", 4, -1, Decision{OK: true, Wait: time.Second / 5, Limit: 5, Burst: 5, Left: -1, By: "even"}},
		{"d:1", 1, 0, Decision{OK: true, Limit: 5, Burst: 5, Left: 4, By: "even"}},
		{"d:2", 1, 0, Decision{OK: true, Limit: 5, Burst: 5, Left: 4, By: "even"}},
		{"d:3", 1, 0, Decision{Reason: TooManyKeys}},
		{"d:1", 1, 0, Decision{OK: true, Limit: 5, Burst: 5, Left: 3, By: "even"}},
		{"nobody's", 1, 0, Decision{Reason: Unmatched}},
		{"", 1, 0, Decision{Reason: InvalidKey}},
		{strings.Repeat("k", 1025), 1, 0, Decision{Reason: InvalidKey}},
		{"closed", 1, -1, Decision{Reason: Limited, By: "closed"}},
		{"open", 1, -1, Decision{OK: true, Limit: rate.Inf, Burst: inf, Left: inf, By: "open"}},
		{"slots", 1, -1, Decision{Reason: InFlight, Limit: 5, Burst: 5, Left: 5}},
		{"zero", 1, -1, Decision{Reason: Limited, By: "even"}},
		{"moving", 1, 0, Decision{OK: true, Limit: 5, Burst: 5, Left: 4, By: "even"}},
		{"bypass", 1, 0, Decision{OK: true, Limit: rate.Inf, Burst: inf, Left: inf}},
		{"bypass", -1, 0, Decision{Reason: InvalidCost, Limit: rate.Inf, Burst: inf, Left: inf}},
	} {
		got := decideAt(g.For(tt.key), 0, tt.n, tt.longest)
		if !math.IsInf(tt.want.Left, 1) && math.Abs(got.Left-tt.want.Left) < 1e-6 {
			got.Left = tt.want.Left
		}
		if math.Abs(got.Burst-tt.want.Burst) < 1e-6 {
			got.Burst = tt.want.Burst
		}
		if got != tt.want {
			t.Errorf("%d: %.20q costs %d: %+v, want %+v", i, tt.key, tt.n, got, tt.want)
		}
	}
	if e := takeAt(g.For("slots"), 0, 1, 0); e.OK() || e.Decision().Reason != InFlight {
		t.Errorf("an estimate of slots: %+v", e.Decision())
	}
}

func TestReasonsHaveNames(t *testing.T) {
	seen := make(map[string]bool)
	for r := range Reason(stage.Reasons) {
		name := r.String()
		if name == "" || strings.HasPrefix(name, "reason(") || seen[name] {
			t.Errorf("reason %d is %q", r, name)
		}
		seen[name] = true
	}
	if got := Reason(200).String(); got != "reason(200)" {
		t.Error(got)
	}
}

func TestADecisionAllocatesNothing(t *testing.T) {
	r := alone(1e9, 1e6)
	plain := NewGroup(snapshot(t, r), 1).For("k")
	r.MaxDebt = time.Second
	debt := NewGroup(snapshot(t, r), 1).For("k")
	for name, k := range map[string]*Limiter{"plain": plain, "debt": debt} {
		ctx := t.Context()
		if n := testing.AllocsPerRun(1000, func() { k.Decide(ctx, 1, 0); k.Allow(); k.AllowN(time.Time{}, 2) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
