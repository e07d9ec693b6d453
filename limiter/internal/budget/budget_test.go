// SPDX-License-Identifier: Apache-2.0

package budget_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter/internal/budget"
	"github.com/headgate/headgate/limiter/stage"
)

// A Budget does as one that counts what there is, in nanoseconds of filling, and it knows when
// there is one more.
func TestABudgetDoesAsOneThatCounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		perSecond := rapid.SampledFrom([]int64{1, 3, 20, 1000}).Draw(rt, "per second")
		atOnce := rapid.Int64Range(1, 30).Draw(rt, "at once")
		each := int64(time.Second) / perSecond
		var b budget.Budget
		now, there := stage.Instant(time.Hour), each*atOnce
		for range rapid.IntRange(1, 100).Draw(rt, "steps") {
			passed := rapid.Int64Range(0, 2*each).Draw(rt, "passed")
			now += stage.Instant(passed)
			there = min(there+passed, each*atOnce)
			if back := rapid.SampledFrom([]float64{0, 0, 0.25, 1}).Draw(rt, "given back"); back > 0 {
				b.GiveBack(back, perSecond)
				there = int64(min(float64(there)+back*float64(each), float64(each*atOnce)))
			}
			if wait := b.Wait(now, perSecond, atOnce); wait != time.Duration(max(each-there, 0)) {
				rt.Fatalf("%v until there is one, want %v", wait, time.Duration(max(each-there, 0)))
			}
			ok := b.Spend(now, perSecond, atOnce)
			if ok != (there >= each) {
				rt.Fatalf("spent %v, with %d of %d ns there", ok, there, each)
			}
			if ok {
				there -= each
			}
		}
	})
}

// An Instant far in the future does not use the Budget up.
func TestATimeFarInTheFutureDoesNotUseUpABudget(t *testing.T) {
	var b budget.Budget
	b.Spend(stage.Instant(24*time.Hour), 10, 10)
	if !b.Spend(0, 10, 10) {
		t.Error("there was none")
	}
}
