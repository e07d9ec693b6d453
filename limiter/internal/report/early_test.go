// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/demand"
	"github.com/headgate/headgate/limiter/internal/lanes"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

func TestANewKeyReportsSoonWhenItRunsLow(t *testing.T) {
	h := newHost(t, 100, reportsEarly, 10)
	if h.Due() != lanes.Never || len(h.Early(0, 1)) > 0 {
		t.Fatal("something is due before anything happened")
	}
	h.use(0, "k", 3) // of the ten of an even part
	if due := h.Due(); due < second/20 || len(h.Early(due, 1)) > 0 {
		t.Fatalf("a key with plenty left is reported at %v", time.Duration(due))
	}
	h = newHost(t, 100, reportsEarly, 10)
	s := h.use(0, "k", 6)
	if due := h.Due(); due > second/20 {
		t.Fatalf("a new key is reported at %v", time.Duration(due))
	}
	said := h.granted(h.Due(), h.Early(h.Due(), 1), 0.5, 20)
	if len(said) != 1 || said[0].Allowed[0] != 6 || said[0].Wants[0] <= 0 {
		t.Fatalf("said %+v", said)
	}
	if inFallback(s.Part()) || !near(float64(s.Rate.Active().Limit), 50) {
		t.Errorf("granted %+v", s.Rate.Active())
	}
}

func TestAKeyThatRunsLowReportsBeforeItIsDry(t *testing.T) {
	h := newHost(t, 100, reportsEarly, 10)
	s := h.use(0, "k", 1)
	h.granted(second/10, h.report(second/10), 0, 50)
	now := second
	h.granted(now, h.urgent(now), 0, 50)
	for tokens(s, now) > 10 {
		if take(s, now, 1) != 1 {
			t.Fatal("refused with tokens left")
		}
	}
	if now += second / 20; len(h.Early(now, 1)) > 0 {
		t.Fatal("it reports with more than a fifth left")
	}
	before := h.Due()
	take(s, now, 1)
	if due := h.Due(); due >= before || due > now+second/100 {
		t.Fatalf("with a fifth left, the next report is due %v later", time.Duration(due-now))
	}
	said := h.granted(h.Due(), h.urgent(h.Due()), 0, 50)
	if len(said) != 1 || said[0].Allowed[0] != 41 {
		t.Fatalf("said %+v", said)
	}
	if got := tokens(s, now+second/100); !near(got, 50) {
		t.Errorf("after the answer %v tokens, want 50", got)
	}
}

func TestWhatIsTakenDuringAReportComesOffTheAnswer(t *testing.T) {
	h := newHost(t, 100, reportsEarly, 10)
	s := h.use(0, "k", 1)
	asked := h.report(second)
	if again := h.report(second + 1); len(again) != 0 {
		t.Error("it reports again before the owner can have answered")
	}
	take(s, second, 4)
	h.granted(second, asked, 0, 30)
	if got := tokens(s, second); !near(got, 26) {
		t.Errorf("%v tokens, want 30 less the 4 that were taken meanwhile", got)
	}
	stale, newer := h.report(5*second), h.report(10*second)
	h.granted(10*second, newer, 0, 30)
	h.granted(10*second, stale, 0.5, 1000) // was overtaken
	if got := tokens(s, 10*second); !near(got, 30) || s.Part().Common().Grant().Weight != 0 {
		t.Errorf("%v tokens and %+v after an answer that was overtaken", got, s.Part().Common().Grant())
	}
}

func TestReportsInVainBecomeRare(t *testing.T) {
	h := newHost(t, 100, reportsEarly, 10)
	s := h.use(0, "k", 0)
	reports := 0
	for now := stage.Instant(0); now < 30*second; now += second / 1000 {
		take(s, now, 1)
		reports += len(h.granted(now, h.urgent(now), 0.1, 0))
		if now%second == 0 {
			h.granted(now, h.report(now), 0.1, 0)
		}
	}
	if reports > 45 { // the interval is one second
		t.Errorf("%d early reports in 30 s that all were in vain", reports)
	}
}

// Others may have wanted more for a moment only, when an owner cut a host's rate.
func TestAHostWhoseRateWasCutAsksAgainSoon(t *testing.T) {
	for weight, shortestLook := range map[float64]bool{0.9: false, 0.85: false, 0.6: true} {
		h := newHost(t, 100, reportsEarly, 10)
		s := h.use(0, "k", 0)
		run := func(from, to stage.Instant, weight float64) (early int) {
			for now := from; now < to; now += second / 1000 {
				take(s, now, 1)
				early += len(h.granted(now, h.urgent(now), weight, 0))
				if now%second == 0 {
					h.granted(now, h.report(now), weight, 0)
				}
			}
			return early
		}
		run(0, 20*second, 0.9)
		if early := run(20*second, 20*second+second/2, weight); early > 0 != shortestLook {
			t.Errorf("weight 0.9, then %v: %d early reports", weight, early)
		}
	}
}

func TestAChangeOfDemandIsReported(t *testing.T) {
	h := newHost(t, 1000, reportsEarly, 10)
	s := h.use(0, "k", 0)
	run := func(from, to stage.Instant, perSecond int) (reported []float64) {
		for now := from; now < to; now += second / 1000 {
			if int(now/(second/1000))%(1000/perSecond) == 0 {
				take(s, now, 1)
			}
			for _, u := range h.granted(now, h.urgent(now), 0.5, 500) {
				reported = append(reported, u.Wants[0])
			}
		}
		return reported
	}
	run(0, 3*second, 100)
	if reported := run(3*second, 13*second, 100); len(reported) > 1 {
		t.Errorf("steady demand was reported early: %v", reported)
	}
	if reported := run(13*second, 14*second, 500); len(reported) == 0 || reported[len(reported)-1] < 400 {
		t.Errorf("after a rise from 100 to 500/s: reported %v", reported)
	}
	if reported := run(14*second, 16*second, 1); len(reported) == 0 || reported[len(reported)-1] > 50 {
		t.Errorf("after a fall to 1/s: reported %v", reported)
	}
}

func TestAQuietKeyDoesNotReport(t *testing.T) {
	h := newHost(t, 100, reportsEarly, 10)
	h.use(0, "k", 1)
	reports := 0
	for now := stage.Instant(0); now < 30*second; now += second / 100 {
		reports += len(h.granted(now, h.urgent(now), 0, 5))
		if now%second == 0 {
			reports += len(h.granted(now, h.report(now), 0, 5))
		}
	}
	if reports > 10 { // from one a second to next to nothing, by a quarter each time
		t.Errorf("%d reports of a key that was used once", reports)
	}
	if h.Due() != lanes.Never {
		t.Error("its demand is still looked at")
	}
}

func TestAnUnansweredReportIsRepeated(t *testing.T) {
	h := newHost(t, 100, reportsEarly, 10)
	s := h.use(0, "k", 6)
	b := h.urgent(second / 20)
	if len(b) != 1 {
		t.Fatal("no first report")
	}
	h.Fail(second/20, b[0], []int{0})
	take(s, second/2, 100)
	if said := h.granted(second, h.report(second), 0.1, 5); len(said) != 1 || said[0].Allowed[0]+said[0].Rejected[0] != 106 {
		t.Errorf("after a failed report: %+v", said)
	}
}

func TestHostsIntroduceThemselvesToNewOwners(t *testing.T) {
	h := newHost(t, 100, reportsEarly, 10)
	s := h.use(0, "k", 50)
	h.granted(second, h.report(second), 0.5, 10)
	h.urgent(second)
	h.Introduce(2*second, s)
	now := 2*second + stage.Instant(introduceAfter)*2
	if due := h.Due(); due > now {
		t.Fatalf("after the ring changed, the next report is due at %v", time.Duration(due))
	}
	if said := h.granted(now, h.urgent(now), 0.5, 10); len(said) != 1 || said[0].Weight[0] != 0.5 {
		t.Errorf("the new owner hears %+v", said)
	}
}

func TestAnOwnerThatIsNotReadyIsAskedAgain(t *testing.T) {
	h := newHost(t, 100, reportsEarly, 10)
	s := h.use(0, "k", 6)
	now := second / 20
	for _, b := range h.urgent(now) {
		nothing := grants(1, 0, 0)
		nothing.Burst[0], nothing.Lease[0] = 0, 0
		if err := h.Apply(now, b, nil, nothing, 10); err != nil {
			t.Fatal(err)
		}
	}
	if !inFallback(s.Part()) || tokens(s, now) < 4 {
		t.Errorf("an answer without a grant changed %v tokens", tokens(s, now))
	}
	now += 2 * stage.Instant(introduceAfter)
	if said := h.granted(now, h.urgent(now), 0.5, 10); len(said) != 1 {
		t.Error("it was not asked again")
	}
}

// An answer that comes when its key is retired does not hide late callers.
func TestALateAnswerLeavesARetiredSubjectAlone(t *testing.T) {
	h := newHost(t, 100, reportsEarly, 10)
	s := h.use(0, "k", 6)
	h.granted(second, h.report(second), 0.5, 10)
	late := h.report(3 * second) // nothing was used since, but its demand has gone
	h.retire(s)
	h.report(3*second + 1)
	if len(late) != 1 || !s.Rate.Bucket().LowAlways() {
		t.Fatalf("%d reports, and late callers are not noticed", len(late))
	}
	h.granted(3*second+2, late, 0.5, 10)
	if !s.Rate.Bucket().LowAlways() {
		t.Error("after the answer, late callers are not noticed")
	}
}

// A late caller is noticed, whatever it was answered.
func TestALateCallerIsNoticed(t *testing.T) {
	for name, level := range map[string]share.Level{
		"allowed": {Limit: 1, Burst: 10}, "refused": {}, "unlimited": {Limit: rate.Inf, Burst: 10},
	} {
		h := newHost(t, 1, dynamicconfig.Traits{Local: true}, 1)
		h.terms.Rule.Limit, h.terms.Rule.Burst = level.Limit, level.Burst
		s := h.use(0, "k", 0)
		h.retire(s)
		if h.report(0); len(h.retired.subjects) != 0 {
			t.Fatal("it is not forgotten")
		}
		if got, want := take(s, 0, 1) == 1, name != "refused"; got != want {
			t.Errorf("%s: answered %v", name, got)
		}
		if len(h.retired.late) != 1 || s.Rate.Bucket().LowAlways() {
			t.Errorf("%s: it is not noticed", name)
		}
	}
}

// Late callers are reported each time, by their own Subject or by its successor.
func TestLateCallersAreReportedEachTime(t *testing.T) {
	for _, back := range []bool{false, true} {
		h := newHost(t, 100, reportsEarly, 10)
		s := h.use(0, "k", 6)
		h.granted(second, h.report(second), 0.5, 10)
		h.retire(s)
		now := 2 * second
		h.granted(now, h.report(now), 0.5, 10)
		if back {
			h.use(now, "k", 1)
		}
		reported := int64(0)
		hear := func() {
			now += 3 * second
			for _, u := range h.granted(now, h.report(now), 0.5, 10) {
				for i := range u.Keys {
					reported += u.Allowed[i] + u.Rejected[i]
				}
			}
		}
		hear()
		hear()
		was := reported
		for i := range int64(3) {
			take(s, now, 1)
			hear()
			hear() // what a successor has inherited is in the next report
			if reported-was != i+1 {
				t.Errorf("successor %v: %d reported after %d", back, reported-was, i+1)
			}
		}
	}
}

// A host also reports a key of which it only refused events.
func TestARefusalIsReported(t *testing.T) {
	h := newHost(t, 100, reportsEarly, 10)
	s := h.use(0, "k", 1)
	h.granted(second, h.report(second), 0.5, 10)
	s.pulse.demand = demand.Estimate{}
	if s.regular(2*second, time.Second) {
		t.Fatal("it reports that there was nothing")
	}
	s.Rate.Bucket().Record(1, false)
	if said := h.granted(2*second, h.report(2*second), 0.5, 10); len(said) != 1 || said[0].Rejected[0] != 1 {
		t.Errorf("said %+v", said)
	}
}

// The last report gives back what the host holds, once.
func TestTheLastReportWantsNothing(t *testing.T) {
	for name, traits := range map[string]dynamicconfig.Traits{"early": reportsEarly, "wants": {Wants: true}} {
		h := newHost(t, 100, traits, 10)
		s := h.use(0, "k", 1)
		if got := h.Last(second, 10, h.live); len(got) != 0 {
			t.Errorf("%s: gives back what it does not hold", name)
		}
		h.granted(second, h.report(second), 0.5, 10)
		got := h.Last(2*second, 10, h.live)
		if len(got) != 1 || got[0].Usage.Check() != nil || got[0].Usage.Weight[0] != 0 || got[0].Usage.Wants[0] != 0 {
			t.Fatalf("%s: %d reports", name, len(got))
		}
		if !inFallback(s.Part()) || len(h.Last(3*second, 10, h.live)) != 0 {
			t.Errorf("%s: holds what it gave back", name)
		}
	}
}

// An early report after the end of a lease is about the fallback's tokens, which decide
// by then: the answer says what the bucket is to hold as of that report.
func TestAnEarlyReportAfterALeaseIsAboutTheFallback(t *testing.T) {
	h := newHost(t, 100, reportsEarly, 1)
	s := h.use(0, "k", 1)
	h.granted(second/10, h.report(second/10), 0.5, 20)
	now := stage.Instant(2 * time.Minute) // the lease has ended, and no round has noticed
	h.early.mu.Lock()
	h.early.reportSoonLocked(now, s, 0)
	h.early.mu.Unlock()
	now += second / 10
	batches := h.Early(now, 1)
	h.report(now) // a round notices
	h.granted(now, batches, 0.5, 5)
	if got := tokens(s, now); !near(got, 5) {
		t.Errorf("%v tokens, and 5 are granted", got)
	}
}

// An event of a cost that the limit can never grant does not keep a host from asking
// ahead of its other events. The cost may come from a stranger's request.
func TestAHugeCostDoesNotEndEarlyReports(t *testing.T) {
	for _, cost := range []int64{1, 1 << 60} {
		h := newHost(t, 1000, dynamicconfig.Traits{Early: true, Asks: true}, 10)
		s := h.use(0, "k", 1)
		h.granted(second, h.report(second), 0.5, 500)
		s.Rate.Take(t.Context(), stage.Request{Now: second, N: cost, Kind: stage.Final})
		early := 0
		for now := second; now < 60*second; now += second / 100 {
			if now >= 10*second {
				take(s, now, 3)
			}
			early += len(h.granted(now, h.urgent(now), 0.1, 50))
			if now%second == 0 {
				h.granted(now, h.report(now), 0.1, 50)
			}
		}
		if early < 10 {
			t.Errorf("after an event of cost %d, %d early reports of 300 events/s in 50 s; an event counts as %v", cost, early, s.pulse.demand.Unit())
		}
	}
}

// A host that asks for what it lacks reports early when the demand for a busy key changes, up or
// down, so that its owner divides the limit by what hosts want now. With few events it asks.
func TestAHostThatAsksReportsAChangeOfDemandForABusyKey(t *testing.T) {
	for _, c := range []struct {
		before, after int // events per 100 ms
		reports       bool
	}{{10, 30, true}, {30, 10, true}, {30, 30, false}, {0, 0, false}} {
		h := newHost(t, 1e6, dynamicconfig.Traits{Early: true, Asks: true}, 10)
		s := h.use(0, "k", 1)
		h.granted(0, h.report(0), 1, 1e6) // the bucket never runs low
		early := 0
		for now := second / 10; now <= 20*second; now += second / 10 {
			n := c.before
			if now > 15*second {
				n = c.after
			}
			take(s, now, n)
			if n := len(h.granted(now, h.urgent(now), 1, 1e6)); now > 15*second {
				early += n
			}
			if now%(3*second) == 0 {
				h.granted(now, h.report(now), 1, 1e6)
			}
		}
		if (early > 0) != c.reports {
			t.Errorf("%d events in 100 ms, and then %d: %d early reports", c.before, c.after, early)
		}
	}
}

// The first event after a silence begins a new average. A look just after it sees one event in
// a few milliseconds.
func TestOneEventIsNoBurst(t *testing.T) {
	h := newHost(t, 1000, dynamicconfig.Traits{Early: true, Asks: true}, 10)
	s := h.use(0, "k", 1)
	early := 0
	for at := second; at < 3000*second; at += second + second*137/1000 { // looks come at all times after it
		for due := h.Due(); due < at; due = h.Due() {
			batches := h.Early(due, 1)
			early += len(batches)
			h.granted(due, batches, 0, 100)
		}
		h.granted(at, h.report(at), 0, 100)
		take(s, at, 1)
		s.Demand(at)
	}
	if early > 0 {
		t.Errorf("%d early reports of a key with an event in 1.1 s", early)
	}
}
