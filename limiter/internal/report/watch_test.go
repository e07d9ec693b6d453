// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/demand"
	"github.com/headgate/headgate/limiter/stage"
)

// bursty is a key that is hardly used, and then every 4 ms for 300 ms. The host asks
// its owner when this begins.
func bursty(t *testing.T) (s *Subject, over stage.Instant) {
	t.Helper()
	h := newHost(t, 1e6, dynamicconfig.Traits{Early: true, Asks: true}, 10)
	s = h.use(0, "k", 1)
	h.granted(0, h.report(0), 1, 1e6) // the bucket never runs low
	const ms = second / 1000
	now := second
	for i := range 75 {
		now += 4 * ms
		take(s, now, 1)
		if i == 20 {
			s.Demand(now)
		}
		h.granted(now, h.urgent(now), 1, 1e6)
	}
	over = now
	for range 200 {
		now += ms
		h.granted(now, h.urgent(now), 1, 1e6)
	}
	return s, over
}

// Until the owner hears that a burst is over, other hosts lack what this host holds.
func TestTheEndOfABurstIsReportedAtOnce(t *testing.T) {
	s, over := bursty(t)
	if after := s.Acked.At.Sub(over); after <= 0 || s.pulse.demand.Reported() > 1 {
		t.Errorf("the last report is %v after the end of a burst, and wants %v/s", after, s.pulse.demand.Reported())
	}
}

// A batch begins at a key that was idle, and so is looked at once a second, or not at all. The reports of its first
// and of its last events say more and more demand. Its end is reported in time for the batch of
// another host.
func TestTheEndOfABatchIsReportedBeforeTheNext(t *testing.T) {
	const ms = second / 1000
	for _, reports := range [][]int{{199}, {20, 199}} { // after so many of 200 events
		for begins := 4 * second; begins < 5*second; begins += 70 * ms {
			h := newHost(t, 1e6, dynamicconfig.Traits{Early: true, Asks: true}, 10)
			s := h.use(0, "k", 1)
			h.granted(0, h.report(0), 1, 1e6) // the bucket never runs low
			now := ms
			pass := func(until stage.Instant) {
				for ; now < until; now += ms {
					h.granted(now, h.urgent(now), 1, 1e6)
				}
			}
			pass(begins)
			for i := range 200 {
				pass(begins + stage.Instant(i/10)*ms)
				take(s, now, 1)
				if i == 0 {
					h.early.ranLow(now, s, false) // it asks
				}
				if slices.Contains(reports, i) {
					h.granted(now, h.report(now), 1, 1e6)
				}
			}
			over := now
			for now < over+2*second && s.pulse.demand.Reported() > 1 {
				pass(now + ms)
			}
			if after := now.Sub(over); after > 450*time.Millisecond {
				t.Errorf("reports %v: a batch at %v is over for %v when that is reported", reports, begins.Sub(0), after)
			}
		}
	}
}

// A key that is looked at more and less often in turn is looked at once in each of its turns.
func TestAWatchHasEachKeyOnce(t *testing.T) {
	h := newHost(t, 1e6, dynamicconfig.Traits{Early: true, Asks: true}, 10)
	var all []*Subject
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, h.use(0, name, 1))
	}
	h.granted(0, h.report(0), 1, 1e6)
	w := &h.early.watch
	for now, i := second, 0; now < 4*second; now, i = now+second/20, i+1 {
		s := all[i%len(all)]
		if i%7 == 0 {
			take(s, now, 1) // so that it stays in use
		}
		if i%2 == 0 {
			w.sooner(now, s, []float64{40, 1000}[i/2%2])
		}
		h.early.turnLocked(now)
		found := map[*Subject]int{}
		for c, lists := range map[demand.Class][][]*Subject{demand.Quick: {w.fast}, demand.Usual: {w.rest}, demand.Slow: w.slow[:]} {
			for _, list := range lists {
				for _, s := range list {
					switch p := &s.pulse; {
					case p.class == c:
						found[s]++
					case p.lingers != c:
						t.Fatalf("at %v, a key of class %d lingers in a list of class %d", now, p.class, c)
					}
				}
			}
		}
		for _, s := range all {
			if found[s] != 1 {
				t.Fatalf("at %v, a key is %d times in lists of its class", now, found[s])
			}
		}
		if w.n != len(all) {
			t.Fatalf("at %v, %d of %d keys are counted", now, w.n, len(all))
		}
	}
}

// A host asks its owner when it has an event of a key that was quiet. How much it wants
// shows a few events later, and is not averaged over the time before.
func TestABurstIsMeasuredFromItsFirstEvent(t *testing.T) {
	for _, c := range []struct {
		burst rate.Limit
		known bool
	}{{1000, true}, {50, false}} { // of so few, a few at once are much
		h := newHost(t, c.burst, dynamicconfig.Traits{Early: true, Asks: true}, 10)
		s := h.use(0, "k", 0)
		var wants float64
		for now := second; now < second+4*second/100; now += second / 100 {
			take(s, now, 1)
			wants, _ = s.Demand(now)
		}
		if known := wants >= 50; known != c.known {
			t.Errorf("of 100 events/s, it wants %v of a burst of %v after four", wants, c.burst)
		}
	}
}

// Without a grant, a host is lent nothing: it reports a burst before all of its events
// have asked.
func TestABurstWithoutAGrantIsReportedAtOnce(t *testing.T) {
	for _, c := range []struct {
		asks  bool
		apart stage.Instant
		early bool
	}{{true, second / 100, true}, {true, second / 2, false}, {false, second / 100, false}} {
		h := newHost(t, 1000, dynamicconfig.Traits{Early: true, Asks: true}, 10)
		s := h.use(0, "k", 0)
		now := stage.Instant(0)
		for ; now < 5*second; now += second / 5 {
			h.urgent(now) // looks at the key, until it is seen to be quiet
		}
		early := 0
		for range 6 {
			now += c.apart
			take(s, now, 1)
			s.RanLow(now, c.asks)
			early += len(h.urgent(now + 3*second/1000))
		}
		if (early > 0) != c.early {
			t.Errorf("without a grant (%v), six events %v apart: %d early reports", c.asks, time.Duration(c.apart), early)
		}
	}
}

// Events that come at once say nothing of how soon the next ones come: a host with clumps of
// ten, 200 ms apart, does not want 200 events/s.
func TestAClumpIsNoBurst(t *testing.T) {
	h := newHost(t, 1000, dynamicconfig.Traits{Early: true, Asks: true}, 10)
	s := h.use(0, "k", 0)
	for now := second; now < 3*second; now += second / 5 {
		for range 10 {
			take(s, now, 1)
			if wants, _ := s.Demand(now); wants > 100 {
				t.Fatalf("of 50 events/s in clumps of ten, it wants %v", wants)
			}
		}
		h.urgent(now + second/10)
	}
}
