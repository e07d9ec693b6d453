// SPDX-License-Identifier: Apache-2.0

package account

import (
	"errors"
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

func TestAverageReportsAllErrorsTogether(t *testing.T) {
	err := Average{Weight: -1, Interval: 0, DecayAfter: -1, GCAfter: -2}.Validate()
	var all interface{ Unwrap() []error }
	if !errors.As(err, &all) || len(all.Unwrap()) != 4 {
		t.Errorf("want four errors, got: %v", err)
	}
	if err := (Average{Weight: math.NaN(), Interval: 1, GCAfter: 10}).Validate(); err == nil {
		t.Error("NaN is accepted")
	}
	if err := (Average{Weight: 1, Interval: 1, DecayAfter: 2, GCAfter: 10}).Validate(); err != nil {
		t.Error(err)
	}
}
