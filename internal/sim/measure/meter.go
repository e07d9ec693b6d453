// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"time"

	"github.com/headgate/headgate/internal/sim/traffic"
)

// meter measures one key while a run goes on. What it computes is defined in
// docs/accuracy.md.
type meter struct {
	warmup  traffic.Time
	end     traffic.Time
	bins    []bin // of binWidth each, from the start; nil: lean
	lean    bool  // only amounts are wanted: no seconds, settling or saturation
	second  int   // of a lean meter, that current is of
	current bin
	sums    amounts // of a lean meter, of the seconds before
	most    int64   // the largest cost seen
	over    overshoot
}

// bin is what happened in a tenth of a second, as cost.
type bin struct{ offered, admitted, oracle int64 }

const (
	binWidth  = 100 * time.Millisecond
	perSecond = int(time.Second / binWidth)
)

// event takes in one event.
func (m *meter) event(now traffic.Time, cost int64, admitted, oracle bool) {
	b := m.bin(now)
	b.offered += cost
	m.most = max(m.most, cost)
	if admitted {
		b.admitted += cost
		m.over.admit(now, cost)
	}
	if oracle {
		b.oracle += cost
	}
}

// bin is what the event at now counts in.
func (m *meter) bin(now traffic.Time) *bin {
	if m.lean {
		if second := int(now / time.Second); second != m.second {
			m.close()
			m.second = second
		}
		return &m.current
	}
	i := int(now / binWidth)
	for len(m.bins) <= i {
		m.bins = append(m.bins, bin{})
	}
	return &m.bins[i]
}

// close ends a second of a lean meter.
func (m *meter) close() {
	if traffic.Time(m.second)*time.Second >= m.measured() {
		m.sums = m.sums.plus(m.current.amounts())
	}
	m.current = bin{}
}

// amounts of a whole second.
func (b bin) amounts() amounts {
	return amounts{b.offered, b.admitted, b.oracle, max(b.oracle-b.admitted, 0)}
}

// sum of the bins from one to before another; those that never were count as
// empty.
func (m *meter) sum(from, to int) (s bin) {
	for _, b := range m.bins[min(from, len(m.bins)):min(to, len(m.bins))] {
		s.offered += b.offered
		s.admitted += b.admitted
		s.oracle += b.oracle
	}
	return s
}

// seconds yields the sums of whole seconds since the start; the last may be
// shorter.
func (m *meter) seconds(yield func(second int, sum bin) bool) {
	if m.lean {
		return
	}
	n := int((m.end + time.Second - 1) / time.Second)
	for s := range n {
		if !yield(s, m.sum(s*perSecond, (s+1)*perSecond)) {
			return
		}
	}
}

// measured is when the first second begins that amounts count.
func (m *meter) measured() traffic.Time { return (m.warmup + time.Second - 1).Truncate(time.Second) }

// saturated is the part of all windows of 10 whole seconds, after the warmup, in
// which more was offered than the limit lets through.
func (m *meter) saturated() float64 {
	if m.lean {
		return 0
	}
	const wide = int(overWindow / time.Second)
	first, last := int(m.measured()/time.Second), int(m.end/time.Second)
	over, all := 0, 0
	offered := make([]int64, 0, max(last-first, 0))
	sum := int64(0)
	for s := first; s < last; s++ {
		one := m.sum(s*perSecond, (s+1)*perSecond).offered
		offered = append(offered, one)
		sum += one
		if len(offered) < wide {
			continue
		}
		if len(offered) > wide {
			sum -= offered[len(offered)-wide-1]
		}
		to := traffic.Time(s+1) * time.Second
		whole, _ := m.over.capacity(to-overWindow, to)
		if all++; float64(sum) > whole {
			over++
		}
	}
	return float64(over) / float64(max(all, 1))
}

// amounts are sums over the time after the warmup.
type amounts struct {
	offered, admitted, oracle int64
	short                     int64 // what seconds lack to the oracle
}

func (m *meter) amounts() (a amounts) {
	if m.lean {
		m.close()
		return m.sums
	}
	first := int(m.measured() / time.Second)
	for s, sum := range m.seconds {
		if s < first {
			continue
		}
		a = a.plus(sum.amounts())
	}
	return a
}

func (a amounts) plus(b amounts) amounts {
	return amounts{a.offered + b.offered, a.admitted + b.admitted, a.oracle + b.oracle, a.short + b.short}
}

// utilisation in percent.
func (a amounts) utilisation() float64 {
	if a.oracle == 0 {
		return 100 * float64(1+a.admitted)
	}
	return 100 * float64(a.admitted) / float64(a.oracle)
}

// falseRejects in percent.
func (a amounts) falseRejects() float64 {
	if a.offered == 0 {
		return 0
	}
	return 100 * float64(a.short) / float64(a.offered)
}

// Settling: how near, and for how long.
const (
	settled    = 0.05
	settledFor = 5 * perSecond // bins
)

// settle is how long after mark, at which something changed, admitted and
// oracle are close again, in seconds. Until is the next mark or the end.
func (m *meter) settle(mark, until traffic.Time) float64 {
	first, last := int(mark/binWidth), int(until/binWidth)
	for from := first; from < last; from++ {
		to := min(from+settledFor, last)
		calm := true
		for b := from; b+perSecond <= to; b++ {
			if !m.near(b) {
				calm, from = false, max(from, b) // nothing before b can be calm
				break
			}
		}
		if calm && to-from >= perSecond {
			return float64(from-first) / float64(perSecond)
		}
	}
	return (until - mark).Seconds()
}

// near reports whether the second that begins with bin from is close to the
// oracle's. One event more or less is always close.
func (m *meter) near(from int) bool {
	s := m.sum(from, from+perSecond)
	difference := float64(s.admitted - s.oracle)
	allowed := max(settled*float64(s.oracle), float64(m.most))
	return -allowed <= difference && difference <= allowed
}

// worstSettle is the worst over all marks; NaN without any.
func (m *meter) worstSettle(marks []Mark) float64 {
	worst := math.NaN()
	for i, mark := range marks {
		until := m.end
		for _, next := range marks[i+1:] {
			if next.At > mark.At {
				until = min(until, next.At)
				break
			}
		}
		if mark.At < until {
			if s := m.settle(mark.At, until); !(worst >= s) {
				worst = s
			}
		}
	}
	return worst
}
