// SPDX-License-Identifier: Apache-2.0

package past

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Limits that change each second let as much through as the sum of those seconds says.
func TestWhatPassedIsTheSumOverTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p *Past
		rates := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, most+1).Draw(t, "rates") // one a second
		for i := range rates[1:] {
			if p == nil {
				p = New()
			}
			p.Was(time.Duration(i+1)*time.Second, rates[i])
		}
		now := time.Duration(len(rates)) * time.Second
		last := rapid.IntRange(0, len(rates)).Draw(t, "last")
		forgotten := rapid.IntRange(0, last).Draw(t, "forgotten")
		want := 0.0
		for _, rate := range rates[last:] {
			want += rate
		}
		p = p.Since(time.Duration(forgotten)*time.Second, now)
		if got := p.Passed(time.Duration(last)*time.Second, now, rates[len(rates)-1]); math.Abs(got-want) > 1e-6*(want+1) {
			t.Fatalf("%v events passed, want %v", got, want)
		}
	})
}

func TestAPastIsKeptWhileHostsReportSlowly(t *testing.T) {
	p := New()
	if p.SlowAt(-time.Hour) { // the clock of a test may begin long before its process
		t.Error("a Past says that hosts may report slowly, and no interval has changed")
	}
	p.SlowUntil(3 * time.Second)
	p.SlowUntil(2 * time.Second)
	if !p.SlowAt(3*time.Second-1) || p.SlowAt(3*time.Second) {
		t.Error("it is not slow until 3 s")
	}
	if p.Since(time.Second, 2*time.Second) == nil || p.Since(time.Second, 3*time.Second) != nil {
		t.Error("it is kept while it is slow, and no longer")
	}
}
