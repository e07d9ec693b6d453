// SPDX-License-Identifier: Apache-2.0

package account

import (
	"math"
	"testing"
	"time"
)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

func TestStagesOfFading(t *testing.T) {
	second := time.Second
	a := Average{Weight: 0.1, Interval: second, DecayAfter: 2 * second, GCAfter: 10 * second}
	factor := func(age time.Duration) float64 {
		var f float64
		for _, s := range a.Stages() {
			if age >= s.From {
				f = s.Factor
			}
		}
		return f
	}
	for _, tt := range []struct {
		age  time.Duration
		want float64
	}{
		{0, 1},
		{1500 * time.Millisecond, 1},
		{2 * second, .81},
		{2500 * time.Millisecond, .81},
		{3500 * time.Millisecond, .729},
		{9100 * time.Millisecond, math.Pow(.9, 9)},
		{10 * second, 0},
		{time.Hour, 0},
	} {
		if got := factor(tt.age); !near(got, tt.want) {
			t.Errorf("at age %v %v is left, want %v", tt.age, got, tt.want)
		}
	}
	a.DecayAfter = 2500 * time.Millisecond
	if got := factor(2600 * time.Millisecond); !near(got, .81) {
		t.Errorf("decay that begins between intervals: %v, want 0.81", got)
	}
}

func TestFadingForManyIntervalsHasFewSteps(t *testing.T) {
	for intervals := time.Duration(1); intervals < 10_000_000; intervals += 1 + intervals/7 {
		a := Average{Weight: 1e-7, Interval: time.Second, DecayAfter: time.Second / 2, GCAfter: intervals * time.Second}
		stages := a.Stages()
		if n := len(stages); n > math.MaxUint8 || n < int(min(intervals, mostSteps/2)) {
			t.Errorf("%d steps for %d intervals", n, intervals)
		}
		for i, s := range stages[2 : len(stages)-1] {
			if want := math.Pow(1-a.Weight, float64(s.From/a.Interval)); s.From <= stages[i+1].From || s.Factor != want {
				t.Errorf("of %d intervals, step %d is %+v: %v is to be left", intervals, i, s, want)
			}
		}
	}
}
