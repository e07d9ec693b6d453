// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRequestWeightedShares(t *testing.T) {
	for _, tt := range []struct {
		name    string
		demands []Rates
		want    []Grant
	}{
		{"alone", []Rates{{3, 1}}, []Grant{{Weight: 1, Burst: 50, Used: 3}}},
		{"rejected count as much as allowed", []Rates{{1, 1}, {2, 0}}, []Grant{{.5, 25, 3, 0}, {.5, 25, 3, 0}}},
		{"by load", []Rates{{90, 810}, {25, 0}, {25, 0}, {50, 0}, {0, 0}}, []Grant{{.9, 45, 190, 0}, {.025, 1.25, 190, 0}, {.025, 1.25, 190, 0}, {.05, 2.5, 190, 0}, {0, 0, 190, 0}}},
		{"nobody wants any", []Rates{{}, {}}, []Grant{{}, {}}},
	} {
		grants := make([]Grant, len(tt.demands))
		RequestWeighted{}.Share(Limit{Rate: 100, Burst: 50}, tt.demands, grants)
		for i, g := range grants {
			if !near(g.Weight, tt.want[i].Weight) || !near(g.Burst, tt.want[i].Burst) || !near(g.Used, tt.want[i].Used) {
				t.Errorf("%s: host %d gets %+v, want %+v", tt.name, i, g, tt.want[i])
			}
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

func TestRequestWeightedIsSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e300), rapid.Float64Range(0, 1))
		demands := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Rates {
			return Rates{amount.Draw(t, "allowed") / 100, amount.Draw(t, "rejected") / 100}
		}), 1, 50).Draw(t, "demands")
		limit := Limit{Rate: 100, Burst: 50}
		grants := make([]Grant, len(demands))
		RequestWeighted{}.Share(limit, demands, grants)
		var sum, burst float64
		for i, g := range grants {
			if !(g.Weight >= 0 && g.Weight <= 1) || !(g.Burst >= 0) || math.IsInf(g.Used, 0) || math.IsNaN(g.Used) {
				t.Fatalf("host %d gets %+v", i, g)
			}
			for j, h := range grants {
				if demands[i].Total() > demands[j].Total() && g.Weight < h.Weight {
					t.Fatalf("host %d wants more than %d and gets less: %v < %v", i, j, g.Weight, h.Weight)
				}
			}
			sum += g.Weight
			burst += g.Burst
		}
		if sum > 1+1e-9 || burst > limit.Burst+1e-9 {
			t.Fatalf("weights sum to %v, bursts to %v", sum, burst)
		}
	})
}

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

func TestRegistry(t *testing.T) {
	r := Builtin()
	if err := r.Register(NameRequestWeighted, RequestWeighted{}); !errors.Is(err, ErrTaken) {
		t.Errorf("registering twice: %v", err)
	}
	if _, err := r.Lookup("no-such"); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := r.Lookup(NameRequestWeighted); err != nil {
		t.Error(err)
	}
}

func ExampleRegistry_Register() {
	registry := Builtin()
	err := registry.Register("equal", Func(func(limit Limit, demands []Rates, grants []Grant) {
		for i := range demands {
			n := float64(len(demands))
			grants[i] = Grant{Weight: 1 / n, Burst: limit.Burst / n}
		}
	}))
	_, found := registry.Lookup("equal")
	fmt.Println(err, found)
	// Output: <nil> <nil>
}
