// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

func TestCapReachesTheFallbackToo(t *testing.T) {
	r := weighted(100)
	r.IdleAfter = time.Hour
	g := NewGroup(snapshot(t, r), 1)
	k := g.For("k")
	allowAt(k, 0, 1)
	b := g.Manual().Report(second)[0]
	if err := g.Manual().Apply(second, b, nil, grantOf(0.5, 50, time.Second)); err != nil {
		t.Fatal(err)
	}
	k.Stage().Cap(2*second, 0)    // another limiter, that is empty, hands over
	g.Manual().Report(2 * second) // the lease ends in the same instant
	if got := take(k, 2*second, 200); got > 0 {
		t.Errorf("capped at 0, and %d are allowed", got)
	}
}

func TestAModeChangeWithoutShadowGivesNoSecondBurst(t *testing.T) {
	r := dynamicconfig.Rule{Key: "k", Limit: 100, Migration: &dynamicconfig.Migration{From: "a", To: "b", Mode: dynamicconfig.ModeOld}}
	g := NewGroup(snapshot(t, r), 1)
	got := take(g.For("k"), 0, 200)
	r.Migration = &dynamicconfig.Migration{From: "a", To: "b", Mode: dynamicconfig.ModeNew}
	g.Manual().Configure(0, snapshot(t, r))
	got += take(g.For("k"), 0, 200)
	if got > 100 {
		t.Errorf("allowed %d of a burst of 100", got)
	}
}

func TestDebtGoesAlongAtASwitch(t *testing.T) {
	r := weighted(10)
	r.IdleAfter = time.Hour
	g := NewGroup(snapshot(t, r), 1)
	k := g.For("k")
	allowAt(k, 0, 1)
	b := g.Manual().Report(second)[0]
	if err := g.Manual().Apply(second, b, nil, grantOf(1, 10, time.Second)); err != nil {
		t.Fatal(err)
	}
	for range 110 {
		reserveAt(k, second, 1, stage.Forever) // waiters that act in the next ten seconds
	}
	before := keyOf(k).Level(2 * second).Tokens
	g.Manual().Report(2 * second)
	if after := keyOf(k).Level(2 * second).Tokens; after > before+1 {
		t.Errorf("%v tokens before the lease ended, %v after", before, after)
	}
}

func TestHugeCostsDoNotOverflowTheCounts(t *testing.T) {
	r := weighted(10)
	r.Fallback = dynamicconfig.FallbackOpen
	g := NewGroup(snapshot(t, r), 1)
	k := g.For("k")
	allowAt(k, 0, math.MaxInt)
	allowAt(k, 0, math.MaxInt)
	if u := g.Manual().Report(second)[0].Usage; u.Allowed[0] == 0 {
		t.Error("all of it was allowed, and nothing is reported")
	}
}

func TestAnOlderAnswerDoesNotReplaceANewerGrant(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 1)
	allowAt(g.For("k"), 0, 1)
	older := g.Manual().Report(second)[0]
	allowAt(g.For("k"), second, 1)
	newer := g.Manual().Report(2 * second)[0]
	for i, b := range []*batch{newer, older} {
		if err := g.Manual().Apply(2*second, b, nil, grantOf([]float64{0.9, 0.1}[i], 10, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	if s := only(t, g, 2*second, "k"); s.Weight != 0.9 {
		t.Errorf("the older grant is in force: %v", s.Weight)
	}
}

// recorder is an Updater that hands on what is reported.
type recorder func(u *usage.Report)

func (r recorder) Update(_ context.Context, u *usage.Report, _ time.Duration, _ func(usage.Part, *usage.Grants, error)) {
	r(u)
}

func TestAGapMakesOneRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := weighted(100)
		r.IdleAfter = time.Hour
		g := NewGroup(snapshot(t, r), 1, WithScope(stalling{tally.NoopScope, &stall{at: 3, pause: 10 * time.Second}}))
		take(g.For("k"), stage.Now(), 10)
		var at []string
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		rounds := make(chan struct{}, 100)
		var times []time.Time
		g.Run(ctx, recorder(func(u *usage.Report) {
			rounds <- struct{}{}
			times = append(times, time.Now())
			at = append(at, fmt.Sprint(stage.Now(), u.Allowed))
			<-rounds
		}))
		for i := 1; i < len(times); i++ {
			if times[i].Sub(times[i-1]) < time.Second/2 {
				t.Errorf("two rounds within %v: %v", times[i].Sub(times[i-1]), at)
			}
		}
	})
}

func TestUsageInFlightWhenAKeyLeavesIsCountedOnce(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 1)
	k := g.For("k")
	take(k, 0, 10)
	g.Manual().Report(second)
	b := g.Manual().Report(9 * second) // the last report, and the key leaves
	told := int64(0)
	take(k, 9*second, 1) // it is back
	if err := g.Manual().Apply(9*second, b[0], nil, grantOf(1, 10, time.Minute)); err != nil {
		t.Fatal(err)
	}
	told += b[0].Usage.Allowed[0]
	for _, b := range g.Manual().Report(10 * second) {
		told += b.Usage.Allowed[0]
	}
	if told != 11 {
		t.Errorf("told of %d, used 11", told)
	}
}

// The answer to an older report does not say that the last one gets none.
func TestUsageInFlightBehindAnOlderAnswerIsCountedOnce(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 1)
	k := g.For("k")
	take(k, 0, 10)
	older := g.Manual().Report(second)[0]
	take(k, second, 5)
	g.Manual().Report(2 * second)
	last := g.Manual().Report(9 * second)[0] // the key leaves
	take(k, 9*second, 1)                     // it is back
	if err := g.Manual().Apply(9*second, older, nil, grantOf(1, 10, time.Minute)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, b := range g.Manual().Report(9*second + 1) {
			if b.Usage.Allowed[0] != 1 {
				t.Errorf("%d reported, but for what the last report had", b.Usage.Allowed[0])
			}
		}
		if err := g.Manual().Apply(9*second+1, last, nil, grantOf(1, 10, time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFailOfAllRows(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 1, WithAlgorithm("request-weighted", dynamicconfig.Traits{Early: true}))
	k := g.For("k")
	take(k, 0, 10)
	b := g.Manual().Report(second)[0]
	g.Manual().Fail(second, b, nil) // nil is all rows, as for Apply
	if again := g.Manual().Report(second + 1); len(again) != 1 || again[0].Usage.Allowed[0] != 10 {
		t.Errorf("then it reports %+v", again)
	}
}

func TestInstantsBeforeZero(t *testing.T) {
	g := NewGroup(snapshot(t, weighted(100)), 1)
	if got := take(g.For("k"), -second, 100); got != 100 {
		t.Errorf("allowed %d of a burst of 100", got)
	}
}

// A fallback that is slower than the grant was, or closed, does not make a debt
// last longer: neither its own, nor that of the next grant.
func TestAFallbackDoesNotProlongADebt(t *testing.T) {
	for fallback, want := range map[dynamicconfig.Fallback]float64{dynamicconfig.FallbackClosed: 0, dynamicconfig.FallbackSafe: 1} {
		r := weighted(1000)
		if r.Fallback = fallback; fallback == dynamicconfig.FallbackSafe {
			r.SafeCapacity = 0.1
		}
		g, now := NewGroup(snapshot(t, r), 1), stage.Now()
		k := g.For("k")
		keyOf(k).Level(now)
		now += second
		answer(t, g, now, 1, 0, 0, 10*time.Second)
		now += 11 * second
		charge(keyOf(k), now, 3000)
		g.Manual().Report(now)
		if d := decideAt(k, now, 1, 0); d.OK || !only(t, g, now, "k").Fallback {
			t.Fatalf("%v: %+v", fallback, d)
		}
		now += 20 * second
		if left := keyOf(k).Level(now).Tokens; math.Abs(left-want) > 1e-6 {
			t.Errorf("%v: %v tokens", fallback, left)
		}
		answer(t, g, now, 1, 0, 0, 10*time.Second)
		if left := keyOf(k).Level(now).Tokens; left != 100 {
			t.Errorf("%v: %v tokens of a grant whose debt was paid long ago", fallback, left)
		}
		// A grant that is back at once finds the debt that it left.
		now += 11 * second
		charge(keyOf(k), now, 1000)
		before := keyOf(k).Level(now).Tokens
		g.Manual().Report(now)
		now += second / 10
		answer(t, g, now, 1, 0, 0, 10*time.Second)
		if left := keyOf(k).Level(now).Tokens; math.Abs(left-before-100) > 1 {
			t.Errorf("%v: %v tokens 100 ms after there were %v", fallback, left, before)
		}
		// A debt of the fallback that a grant has paid is paid.
		now += 11 * second
		g.Manual().Report(now)
		charge(keyOf(k), now, 50)
		now += second
		answer(t, g, now, 1, 0, 0, 10*time.Second)
		now += 21 * second
		g.Manual().Report(now)
		if left := keyOf(k).Level(now).Tokens; left < 0 {
			t.Errorf("%v: %v tokens, after a grant has paid", fallback, left)
		}
	}
}
