// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// The side that answers after a disabled migration has what callers gave back meanwhile,
// whichever rules were in force.
func TestARefundWhileAMigrationIsDisabledIsNotLost(t *testing.T) {
	limits := func(algorithm string) string {
		return "limits: [{key: k, limit: 0.000001/s, burst: 20, " + algorithm + "}]"
	}
	even, old := limits("algorithm: even"), limits("migrate: {from: even, to: elastic, mode: old}")
	shadowed, disabled := limits("migrate: {from: even, to: elastic, mode: old-shadow-new}"), limits("migrate: {from: even, to: elastic, mode: disabled}")
	second, other := limits("migrate: {from: even, to: elastic, mode: new}"), limits("migrate: {from: even, to: request-weighted, mode: disabled}")
	costs := limits("max_cost: 20, migrate: {from: even, to: elastic, mode: disabled}")
	for name, rules := range map[string][]string{
		"a jump":                             {old, disabled, second},
		"measured":                           {shadowed, disabled, second},
		"back":                               {old, disabled, old},
		"the old side alone":                 {even, disabled, second},
		"the new side alone":                 {old, disabled, limits("algorithm: elastic")},
		"disabled twice":                     {old, disabled, costs, second},
		"disabled toward other sides":        {old, disabled, other, second},
		"disabled toward other sides, alone": {old, disabled, other, limits("algorithm: request-weighted")},
		"the rule is gone meanwhile":         {old, disabled, "limits: [{key: other, limit: 1/s}]", second},
		"a remote bucket": {
			limits("migrate: {from: redis, to: even, mode: old}"), limits("migrate: {from: redis, to: even, mode: disabled}"), limits("migrate: {from: redis, to: even, mode: new}"),
		},
		"a remote bucket, alone": {
			limits("algorithm: redis"), limits("migrate: {from: redis, to: even, mode: disabled}"), limits("algorithm: even"),
		},
		"toward a remote bucket": {
			limits("migrate: {from: even, to: redis, mode: old}"), limits("migrate: {from: even, to: redis, mode: disabled}"), limits("algorithm: redis"),
		},
	} {
		for _, measured := range []bool{false, true} {
			for _, actual := range []int64{0, 10} {
				now := stage.Now()
				options := []limiter.Option{limiter.WithRemote("redis", &drained{left: 20}), driver.WithBackground(func(f func()) { f() })}
				if measured {
					options = append(options, limiter.WithMigration(shadow.Migrator()))
				}
				g := limiter.NewGroup(traceLimits(t, rules[0]), 1, options...)
				at := g.For("k").Stage()
				_, receipt := at.Take(t.Context(), stage.Request{Now: now, N: 15})
				driver.Of(g).Configure(now, traceLimits(t, rules[1]))
				now = now.Add(time.Second)
				at.Settle(now, receipt, actual)
				for _, r := range rules[2:] {
					now = now.Add(time.Second)
					driver.Of(g).Configure(now, traceLimits(t, r))
				}
				if left := at.Level(now).Tokens; math.Abs(left-float64(20-actual)) > 1e-3 {
					t.Errorf("%s, measured %t: %v tokens are left of 20, after an event that did cost %d", name, measured, left, actual)
				}
			}
		}
	}
}

// Where a service's own Migrator makes no Migration, the side that answers decides alone.
func TestAMigratorThatMakesNothingMeasuresNothing(t *testing.T) {
	makesNone := stage.Migrator{
		Stages: func(stage.Instant, stage.Stage, stage.Stage, dynamicconfig.Mode, func(func()) bool) stage.Migration {
			return nil
		},
		Slots: func(stage.Slots, stage.Slots, dynamicconfig.Mode) stage.SlotsMigration { return nil },
	}
	const limits = "limits: [{key: k, limit: 0.000001/s, burst: 20, migrate: {from: even, to: elastic, mode: old-shadow-new}}, {key: s, limit: 2 in-flight, migrate: {from: even, to: fair-share, mode: old-shadow-new}}]"
	g := limiter.NewGroup(traceLimits(t, limits), 1, limiter.WithMigration(makesNone), driver.WithSeed(1))
	for range 2 {
		if !g.For("k").AllowN(time.Now(), 10) {
			t.Error("tokens are refused")
		}
		if _, ok := g.For("s").TryAcquire(1); !ok {
			t.Error("a slot is refused")
		}
		g.Configure(traceLimits(t, limits))
	}
	if _, ok := g.For("s").TryAcquire(1); ok || g.For("k").Allow() {
		t.Error("more than the limit is allowed")
	}
}
