// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// A host that uses all that it is lent reports a little later than the owner takes it for dead,
// and the owner has not looked at its row since. What it was lent does not come back.
func TestALoanThatIsReportedLateIsSpent(t *testing.T) {
	limit := algorithm.Limit{Rate: 1, Burst: 100}
	for _, name := range []string{algorithm.NameElastic, algorithm.NameAuto} {
		k := made(name)
		k.Report(-time.Minute, limit, 9, &account.Report{Elapsed: time.Second, Cost: 1})
		var h elasticHost
		used, now := 0.0, time.Duration(0)
		for range 30 {
			h.report(k, now, limit, 1, 1000)
			used += h.use(now, 1000)
			k.Expire(now+interval*17/10, func(uint32) {}) // not yet
			now += interval * 18 / 10
			k.Expire(now, func(uint32) {})
		}
		most := limit.Burst + limit.Rate*now.Seconds() + algorithm.Elastic{}.Overshoot(limit, 2, interval)
		if used > most {
			t.Errorf("%s: %v are used in %v of at most %v", name, used, now, most)
		}
	}
}

// The interval becomes shorter twice. A host reports after the first one, and used no more
// than its rate. So it owes nothing.
func TestAnIntervalThatBecomesShorterTwice(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	for _, name := range []string{algorithm.NameElastic, algorithm.NameAuto} {
		c := reaching(name)
		c.Interval, c.Rule.Limit, c.Rule.Burst = 20*s, 100, limit.Burst
		k := New(0, time.Hour, c)
		k.Report(-time.Minute, limit, 9, &account.Report{Elapsed: s, Cost: 1})
		var h elasticHost
		h.report(k, 0, limit, 1, 500)
		h.report(k, s, limit, 1, 500)
		tokens := func() float64 { return plain(k).pool + float64(plain(k).rows.At(plain(k).rows.Find(1)).lent) }
		before := tokens()
		for i, shorter := range []time.Duration{2 * s, s} {
			c.Interval = shorter
			k.Configure(time.Duration(2+i)*s, c)
		}
		k.Report(21*s, limit, 1, &account.Report{Allowed: h.rate * 20, Elapsed: 20 * s, Cost: 1})
		if got := tokens(); got < before-1e-3 {
			t.Errorf("%s: of %v tokens there are %v, and the host used its rate of %v/s", name, before, got, h.rate)
		}
	}
}

// The interval becomes shorter, and soon the algorithm changes.
func TestAnIntervalThatBecomesShorterBeforeTheAlgorithmChanges(t *testing.T) {
	limit := algorithm.Limit{Rate: 100, Burst: 100}
	for _, names := range [][2]string{{algorithm.NameElastic, algorithm.NameAuto}, {algorithm.NameAuto, algorithm.NameElastic}} {
		c := reaching(names[0])
		c.Interval = 20 * time.Second
		k, _ := New(0, time.Hour, c).(account.Pooled)
		k.Report(-time.Minute, limit, 9, &account.Report{Elapsed: time.Second, Cost: 1})
		var h elasticHost
		h.report(k, 0, limit, 1, 500)
		h.report(k, s, limit, 1, 500)
		had := plain(k).rates(1)
		c = reaching(names[0])
		c.Interval = s
		k.Configure(2*s, c)
		c = reaching(names[1])
		c.Interval = s
		k = k.Reach(3*s, c)
		k.Configure(3*s, c)
		k.Expire(5*s, func(uint32) {})
		if got := plain(k).rates(1); got < had {
			t.Errorf("%v: %v of the limit is out, and the host goes on with %v until its next report", names, got, had)
		}
	}
}

// Reports come late now and then, and the answers to some are lost, so that the next ones repeat them. The owner charges all
// that was used, once.
func TestWhatIsReportedLateIsChargedOnce(t *testing.T) {
	const reports, used = 100, 110
	limit := algorithm.Limit{Rate: 100, Burst: 1e4}
	for _, tt := range []struct {
		name      string
		late      func(i int) time.Duration
		lost      func(i int) bool // the answer to report i
		tolerance float64
	}{
		{"on time", func(int) time.Duration { return 0 }, func(int) bool { return false }, 20},
		{"some are late", func(i int) time.Duration { return time.Duration(i%4/3) * 300 * time.Millisecond }, func(int) bool { return false }, 20},
		{"some are late in a row", func(i int) time.Duration { return time.Duration(i%8/6) * 300 * time.Millisecond }, func(int) bool { return false }, 20 + used*0.15*reports/8},
		{"the network has become slow", func(i int) time.Duration { return time.Duration(i/(reports/2)) * 300 * time.Millisecond }, func(i int) bool { return i > reports*2/3 && i%3 == 0 }, 20 + used*0.05*reports/9},
		{"answers are lost", func(int) time.Duration { return 0 }, func(i int) bool { return i%3 == 0 }, 20 + used*0.05*reports/3},
		{"some are late, and other answers are lost", func(i int) time.Duration { return time.Duration(i%4/3) * 300 * time.Millisecond }, func(i int) bool { return i%4 == 1 }, 20 + used*0.05*reports/4},
	} {
		for _, name := range []string{algorithm.NameElastic, algorithm.NameAuto} {
			k := made(name)
			k.Report(-time.Minute, limit, 9, &account.Report{Elapsed: s, Cost: 1})
			said := account.Report{Wants: used, Cost: 1}
			k.Report(0, limit, 1, &account.Report{Wants: used, Elapsed: s, Cost: 1})
			left := func() float64 { p := plain(k); return p.pool + float64(p.rows.At(p.rows.Find(1)).lent) }
			before := left()
			for i := 1; i <= reports; i++ {
				said.Allowed, said.Elapsed = said.Allowed+used, said.Elapsed+s
				again := said
				if i == reports {
					k.Report(reports*s, limit, 1, &again)
				} else {
					k.Report(time.Duration(i)*s+tt.late(i), limit, 1, &again)
				}
				if !tt.lost(i) {
					said.Allowed, said.Elapsed = 0, 0
				}
			}
			if got, want := before-left(), (used-limit.Rate)*reports; math.Abs(got-want) > tt.tolerance {
				t.Errorf("%s: %s: the host used %v more than came in, and %v of it were charged", name, tt.name, want, got)
			}
		}
	}
}
