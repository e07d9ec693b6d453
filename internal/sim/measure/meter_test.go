// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/sim/traffic"
)

const ms = time.Millisecond

// fill makes n events of cost 1 at equal distances within [from, to), of
// which so many are admitted by limiter and oracle, first ones first.
func fill(m *meter, from, to traffic.Time, n, admitted, oracle int) {
	for i := range n {
		m.event(from+traffic.Time(i)*(to-from)/traffic.Time(n), 1, i < admitted, i < oracle)
	}
}

func newMeter(warmup, end traffic.Time, limit, burst float64) *meter {
	m := &meter{warmup: warmup, end: end}
	m.over.limits = []capacity{{0, limit, burst}}
	return m
}

func TestAmountsLeaveOutTheWarmup(t *testing.T) {
	m := newMeter(1500*ms, 4*time.Second, 100, 100)
	fill(m, 0, time.Second, 100, 0, 100)
	fill(m, time.Second, 2*time.Second, 100, 0, 100) // begins within the warmup
	fill(m, 2*time.Second, 3*time.Second, 100, 40, 50)
	fill(m, 3*time.Second, 4*time.Second, 100, 80, 50)
	a := m.amounts()
	if want := (amounts{offered: 200, admitted: 120, oracle: 100, short: 10}); a != want {
		t.Fatalf("amounts = %+v, want %+v", a, want)
	}
	if u := a.utilisation(); u != 120 {
		t.Errorf("utilisation = %v", u)
	}
	// 30 too many in the last second do not make up for 10 too few before.
	if f := a.falseRejects(); f != 5 {
		t.Errorf("false rejects = %v", f)
	}
}

func TestAmountsOfNothing(t *testing.T) {
	if u := (amounts{}).utilisation(); u != 100 {
		t.Errorf("nothing of nothing is %v%%", u)
	}
	if u := (amounts{admitted: 2}).utilisation(); u != 300 {
		t.Errorf("something of nothing is %v%%", u)
	}
	if f := (amounts{}).falseRejects(); f != 0 {
		t.Errorf("false rejects of nothing: %v%%", f)
	}
}

func TestSettleIsTheTimeUntilItStaysClose(t *testing.T) {
	tests := []struct {
		name  string
		mark  traffic.Time
		until traffic.Time
		fill  func(m *meter)
		want  float64
	}{
		{"at once", 10 * time.Second, 30 * time.Second, func(m *meter) {
			fill(m, 0, 30*time.Second, 30_000, 30_000, 30_000)
		}, 0},
		{"after 2 s", 10 * time.Second, 30 * time.Second, func(m *meter) {
			fill(m, 0, 10*time.Second, 10_000, 10_000, 10_000)
			fill(m, 10*time.Second, 12*time.Second, 2000, 0, 2000)
			fill(m, 12*time.Second, 30*time.Second, 18_000, 18_000, 18_000)
		}, 2},
		{"too much counts as too little does", 10 * time.Second, 30 * time.Second, func(m *meter) {
			fill(m, 10*time.Second, 12*time.Second, 2000, 2000, 1000)
			fill(m, 12*time.Second, 30*time.Second, 18_000, 18_000, 18_000)
		}, 2},
		{"a relapse within 5 s starts it again", 10 * time.Second, 30 * time.Second, func(m *meter) {
			fill(m, 10*time.Second, 14*time.Second, 4000, 4000, 4000)
			fill(m, 14*time.Second, 15*time.Second, 1000, 500, 1000)
			fill(m, 15*time.Second, 30*time.Second, 15_000, 15_000, 15_000)
		}, 5},
		{"a relapse later does not", 10 * time.Second, 30 * time.Second, func(m *meter) {
			fill(m, 10*time.Second, 16*time.Second, 6000, 6000, 6000)
			fill(m, 16*time.Second, 30*time.Second, 14_000, 0, 14_000)
		}, 0},
		{"never", 10 * time.Second, 30 * time.Second, func(m *meter) {
			fill(m, 10*time.Second, 30*time.Second, 20_000, 0, 20_000)
		}, 20},
		{"the next change ends the watch", 10 * time.Second, 13 * time.Second, func(m *meter) {
			fill(m, 10*time.Second, 11*time.Second, 1000, 0, 1000)
			fill(m, 11*time.Second, 13*time.Second, 2000, 2000, 2000)
			fill(m, 13*time.Second, 30*time.Second, 17_000, 0, 17_000)
		}, 1},
		{"one event more or less is close", 10 * time.Second, 30 * time.Second, func(m *meter) {
			for s := 10; s < 30; s++ {
				fill(m, traffic.Time(s)*time.Second, traffic.Time(s+1)*time.Second, 3, 2, 3)
			}
		}, 0},
		{"silence is close", 10 * time.Second, 30 * time.Second, func(*meter) {}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMeter(0, 30*time.Second, 1000, 1000)
			tt.fill(m)
			// Sliding seconds see a change up to one second before it.
			if got := m.settle(tt.mark, tt.until); math.Abs(got-tt.want) > 0.11 {
				t.Errorf("settles in %v s, want %v", got, tt.want)
			}
		})
	}
}

func TestOverIsTheLargestExcessInTenSeconds(t *testing.T) {
	m := newMeter(0, 60*time.Second, 10, 20)
	for i := range 200 { // twice the limit for 10 s
		m.over.admit(traffic.Time(i)*50*ms, 1)
	}
	// 200 − 100 − 20 = 80 of 100.
	if got := m.over.worst; math.Abs(got-80) > 1e-9 {
		t.Errorf("over = %v%%, want 80", got)
	}
	quiet := newMeter(0, 60*time.Second, 10, 20)
	quiet.over.admit(0, 20)
	for i := range 500 {
		quiet.over.admit(traffic.Time(i+1)*100*ms, 1)
	}
	if got := quiet.over.worst; got > 1+1e-9 { // a window holds both of its ends
		t.Errorf("a bucket's own output is over by %v%%", got)
	}
}

func TestOverLaterLeavesOutWhatFollowsAMark(t *testing.T) {
	m := newMeter(0, 60*time.Second, 10, 10)
	m.over.marks = []traffic.Time{5 * time.Second}
	burst := func(at traffic.Time, n int) {
		for range n {
			m.over.admit(at, 1)
		}
	}
	burst(6*time.Second, 150)
	if m.over.worst != 40 || m.over.worstLater != 0 {
		t.Errorf("after the mark: over %v%%, later %v%%", m.over.worst, m.over.worstLater)
	}
	burst(40*time.Second, 120)
	if m.over.worst != 40 || m.over.worstLater != 10 {
		t.Errorf("long after: over %v%%, later %v%%", m.over.worst, m.over.worstLater)
	}
}

// dumbOver looks at all windows that begin or end with an event.
func dumbOver(o *overshoot, all []admission) float64 {
	worst := 0.0
	for _, e := range all {
		for _, from := range []traffic.Time{e.at, e.at - overWindow} {
			sum := 0.0
			for _, f := range all {
				if f.at >= from && f.at <= from+overWindow {
					sum += float64(f.cost)
				}
			}
			whole, burst := o.capacity(from, from+overWindow)
			worst = max(worst, 100*(sum-whole-burst)/max(whole, 1))
		}
	}
	return worst
}

func TestOverAgreesWithTheDumbVersion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &overshoot{limits: []capacity{{0, 5, 5}}}
		if rapid.Bool().Draw(t, "changes") {
			at := traffic.Time(rapid.Int64Range(0, int64(40*time.Second)).Draw(t, "at"))
			o.limits = append(o.limits, capacity{at, rapid.Float64Range(0, 20).Draw(t, "limit"), 3})
		}
		var all []admission
		now := traffic.Time(0)
		for range rapid.IntRange(1, 60).Draw(t, "n") {
			now += traffic.Time(rapid.Int64Range(0, int64(2*time.Second)).Draw(t, "gap"))
			cost := rapid.Int64Range(1, 9).Draw(t, "cost")
			all = append(all, admission{now, cost})
			o.admit(now, cost)
		}
		o.admit(now+time.Hour, 0) // so that the last windows are looked at
		all = append(all, admission{now + time.Hour, 0})
		if want := dumbOver(o, all); math.Abs(o.worst-want) > 1e-6*max(want, 1) {
			t.Fatalf("over = %v%%, the dumb version says %v%%", o.worst, want)
		}
	})
}
