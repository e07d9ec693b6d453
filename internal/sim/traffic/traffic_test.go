// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math"
	"slices"
	"testing"
	"time"
)

// count is how many events a stream of r sends in each of the windows that
// begin at the given times.
func count(r Rate, even bool, width time.Duration, from ...time.Duration) []int {
	c := Chance(3, "test", 0)
	s := Stream{Chance: c, Rates: r.Segments(c), Even: even, Parts: 1, End: 10 * time.Minute, Cost: One}
	n := make([]int, len(from))
	last := Time(-1)
	for at, ok := s.Next(); ok; at, ok = s.Next() {
		if at < last {
			return nil
		}
		last = at
		for i, f := range from {
			if at >= f && at < f+width {
				n[i]++
			}
		}
	}
	return n
}

func TestRatesAreWhatTheySay(t *testing.T) {
	sec := time.Second
	tests := []struct {
		name  string
		rate  Rate
		width time.Duration
		from  []time.Duration
		want  []int
	}{
		{"constant", Constant(50), sec, []time.Duration{0, 300 * sec, 599 * sec}, []int{50, 50, 50}},
		{"none", Constant(0), sec, []time.Duration{0}, []int{0}},
		{"steps", Steps{{10 * sec, 100}, {20 * sec, 0}, {30 * sec, 10}}, 10 * sec, []time.Duration{0, 10 * sec, 20 * sec, 30 * sec}, []int{0, 1000, 0, 100}},
		{"ramp", Ramp{From: 10, To: 110, At: 10 * sec, For: 10 * sec}, 10 * sec, []time.Duration{0, 10 * sec, 20 * sec}, []int{100, 600, 1100}},
		{"sine", Sine{Mean: 100, Amplitude: 100, Period: 60 * sec}, 60 * sec, []time.Duration{0, 60 * sec}, []int{6000, 6000}},
		{"sine, half", Sine{Mean: 100, Amplitude: 100, Period: 60 * sec, Phase: 30 * sec}, 30 * sec, []time.Duration{0, 30 * sec}, []int{1090, 4910}},
		{"walk, still", Walk{Start: 20, Step: 0, Every: sec}, 10 * sec, []time.Duration{500 * sec}, []int{200}},
	}
	for _, tt := range tests {
		for i, got := range count(tt.rate, true, tt.width, tt.from...) {
			if math.Abs(float64(got-tt.want[i])) > 1 {
				t.Errorf("%s: from %s: %d events, want %d", tt.name, tt.from[i], got, tt.want[i])
			}
		}
		for i, got := range count(tt.rate, false, tt.width, tt.from...) {
			if math.Abs(float64(got-tt.want[i])) > 4*math.Sqrt(float64(tt.want[i])) {
				t.Errorf("%s, poisson: from %s: %d events, want about %d", tt.name, tt.from[i], got, tt.want[i])
			}
		}
	}
}

func TestWalkStaysWithinItsSteps(t *testing.T) {
	w := Walk{Start: 100, Step: 0.1, Every: 10 * time.Second}
	rates := w.Segments(Chance(1, "test", 0))
	last, changes := 100.0, 0
	for at := Time(0); at < time.Hour; {
		rate, until := rates(at)
		if ratio := rate / last; ratio < 0.9-1e-9 || ratio > 1.1+1e-9 {
			t.Fatalf("at %s the rate goes from %v to %v", at, last, rate)
		}
		if rate != last {
			changes++
		}
		if until != at+10*time.Second {
			t.Fatalf("at %s it holds until %s", at, until)
		}
		last, at = rate, until
	}
	if changes != 359 {
		t.Errorf("%d changes in an hour, want 359", changes)
	}
}

func TestBurstsComeAsOftenAndOnAsManyHosts(t *testing.T) {
	b := &Bursts{Rate: 10, Every: Span{12 * time.Second, 24 * time.Second}, For: 6 * time.Second, Hosts: 3}
	all := b.Schedule(Chance(1, "test", 0), UpTo(30), time.Hour)
	if n := len(all); n < 180 || n > 220 {
		t.Errorf("%d bursts in an hour, want about 200", n)
	}
	used := make(map[int]bool)
	for i, one := range all {
		if i > 0 {
			if gap := one.At - all[i-1].At; gap < b.Every.From || gap > b.Every.To {
				t.Errorf("%s between bursts", gap)
			}
		}
		if len(one.hosts) != 3 || len(slices.Compact(slices.Clone(one.hosts))) != 3 {
			t.Errorf("burst on %v", one.hosts)
		}
		for _, h := range one.hosts {
			used[h] = true
		}
	}
	if len(used) != 30 {
		t.Errorf("bursts on %d of 30 hosts", len(used))
	}
	turns := &Bursts{Every: Span{time.Second, time.Second}, For: time.Second, Hosts: 2, Next: true}
	got := turns.Schedule(Chance(1, "test", 1), []int{4, 5, 6}, 3*time.Second)
	if !slices.Equal(got[0].hosts, []int{4, 5}) || !slices.Equal(got[1].hosts, []int{6, 4}) {
		t.Errorf("in turn: %v", got)
	}
}

func TestABurstThatOverlapsGoesOn(t *testing.T) {
	b := &Bursts{Rate: 10, For: 5 * time.Second}
	steps := b.Of([]Burst{{0, []int{1}}, {3 * time.Second, []int{1}}, {20 * time.Second, []int{1}}}, 1)
	want := Steps{{0, 10}, {8 * time.Second, 0}, {20 * time.Second, 10}, {25 * time.Second, 0}}
	if !slices.Equal(steps, want) {
		t.Errorf("steps = %v, want %v", steps, want)
	}
}
