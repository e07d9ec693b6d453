// SPDX-License-Identifier: Apache-2.0

package account

import (
	"testing"
	"time"
)

func TestALateReportIsNoneThatComesAgain(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	type said struct {
		since, elapsed time.Duration
		fresh          time.Duration // of elapsed
	}
	for name, trace := range map[string][]said{
		"on time":                             {{s, s, s}, {s, s, s}},
		"a little sooner":                     {{s, s + 40*ms, s + 40*ms}},
		"an answer was lost":                  {{s, s, s}, {s, 2 * s, s + Overlap}, {s, s, s}},
		"late, and then on time":              {{s + 300*ms, s, s}, {s - 300*ms, s, s}, {s, 2 * s, s + Overlap}},
		"late twice, and then on time":        {{s + 300*ms, s, s}, {s, s, s}, {s - 300*ms, s, s - 104*ms}},
		"late, and its answer was lost":       {{s + 300*ms, s, s}, {s - 300*ms, 2 * s, s + Overlap}},
		"silent, and then an answer was lost": {{5 * s, s, s}, {s, 2 * s, s + Overlap}},
	} {
		var l Late
		for i, at := range trace {
			r := Report{Elapsed: at.elapsed}
			got := time.Duration(l.NewPart(at.since, &r) * float64(at.elapsed))
			if (got-at.fresh).Abs() > 9*ms || r.Overlaps != (at.fresh < at.elapsed) {
				t.Errorf("%s: of report %d, about %v, %v are new, want %v; overlaps: %v", name, i, at.elapsed, got, at.fresh, r.Overlaps)
			}
		}
	}
	l := AnyTime
	if r := (Report{Elapsed: time.Hour}); l.NewPart(s, &r) != 1 || r.Overlaps {
		t.Error("a host that asked after it was taken for dead reports for the first time, and not all of it is new")
	}
	for _, first := range []time.Duration{s, s + 500*ms} { // the report before was not late
		l = AnyTime
		l.NewPart(s, &Report{Elapsed: first})
		if got := time.Duration(l.NewPart(s, &Report{Elapsed: 2 * s}) * float64(2*s)); (got - s - Overlap).Abs() > 9*ms {
			t.Errorf("the answer to the first report about %v after that was lost, and %v of the next are new", first, got)
		}
	}
}
