// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// eagerGroup is a group of one key under an eager algorithm.
func eagerGroup(t testing.TB, rule dynamicconfig.Rule, hosts int) *Group {
	t.Helper()
	rule.Algorithm = "lending"
	return NewGroup(snapshot(t, rule), hosts, WithEager("lending"), WithSeed(1))
}

// granted answers all batches with so much, and returns what they said.
func granted(t testing.TB, g *Group, now Instant, batches []*Batch, weight, tokens float64) (said []rpc.Usage) {
	t.Helper()
	for _, b := range batches {
		grants := &rpc.Grants{Weight: []float64{weight}, Burst: []float64{tokens + 10}, Used: []float64{0}, Lease: []time.Duration{time.Minute}, Tokens: []float64{tokens}}
		if err := g.Apply(now, b, nil, grants); err != nil {
			t.Fatal(err)
		}
		said = append(said, b.Usage)
	}
	return said
}

func TestANewKeyReportsAtOnceWhenItRunsLow(t *testing.T) {
	g := eagerGroup(t, weighted(100), 10)
	if g.NextEarly() != never || g.Early(0) != nil {
		t.Fatal("something is due before anything happened")
	}
	take(g.For("k"), 0, 3) // of the ten of an even share
	if due := g.NextEarly(); due < second/20 || len(g.Early(due)) > 0 {
		t.Fatalf("a key with plenty left is reported at %v", time.Duration(due))
	}
	g = eagerGroup(t, weighted(100), 10)
	take(g.For("k"), 0, 6)
	if due := g.NextEarly(); due > second/20 {
		t.Fatalf("a new key is reported at %v", time.Duration(due))
	}
	said := granted(t, g, g.NextEarly(), g.Early(g.NextEarly()), 0.5, 20)
	if len(said) != 1 || said[0].Allowed[0] != 6 || said[0].Wants[0] <= 0 {
		t.Fatalf("said %+v", said)
	}
	if s := only(t, g, second/20, "k"); s.Fallback || !near(float64(s.Level.Limit), 50) {
		t.Errorf("granted %+v", s)
	}
}

func TestAKeyThatRunsLowAsksBeforeItIsDry(t *testing.T) {
	g := eagerGroup(t, weighted(100), 10)
	k := g.For("k")
	take(k, 0, 1)
	granted(t, g, second/10, g.Report(second/10), 0, 50)
	now := second
	granted(t, g, now, g.Early(now), 0, 50)
	for only(t, g, now, "k").Level.Tokens > 10 {
		if got := take(k, now, 1); got != 1 {
			t.Fatal("refused with tokens left")
		}
	}
	now += second / 20
	before := g.NextEarly()
	take(k, now, 1)
	if due := g.NextEarly(); due >= before || due > now+second/100 {
		t.Fatalf("with a fifth left, the next report is due %v later", time.Duration(due-now))
	}
	said := granted(t, g, g.NextEarly(), g.Early(g.NextEarly()), 0, 50)
	if len(said) != 1 || said[0].Allowed[0] != 41 {
		t.Fatalf("asked with %+v", said)
	}
	if s := only(t, g, now+second/100, "k"); !near(s.Level.Tokens, 50) {
		t.Errorf("after the answer %v tokens, want 50", s.Level.Tokens)
	}
}

func TestWhatIsTakenDuringAnAskComesOffTheAnswer(t *testing.T) {
	rule := weighted(100)
	rule.IdleAfter = time.Hour
	g := eagerGroup(t, rule, 10)
	k := g.For("k")
	take(k, 0, 1)
	asked := g.Report(second)
	take(k, second, 4)
	granted(t, g, second, asked, 0, 30)
	if s := only(t, g, second, "k"); !near(s.Level.Tokens, 26) {
		t.Errorf("%v tokens, want 30 less the 4 that were taken meanwhile", s.Level.Tokens)
	}
	stale := g.Report(5 * second)
	newer := g.Report(10 * second)
	granted(t, g, 10*second, newer, 0, 30)
	granted(t, g, 10*second, stale, 0, 1000) // overtaken: counts for nothing
	if s := only(t, g, 10*second, "k"); !near(s.Level.Tokens, 30) {
		t.Errorf("%v tokens after an answer that was overtaken", s.Level.Tokens)
	}
}

func TestAsksInVainBecomeRare(t *testing.T) {
	g := eagerGroup(t, weighted(100), 10)
	k := g.For("k")
	asks := 0
	for now := Instant(0); now < 30*second; now += second / 1000 {
		take(k, now, 1)
		if now >= g.NextEarly() {
			asks += len(granted(t, g, now, g.Early(now), 0.1, 0))
		}
		if now%second == 0 {
			granted(t, g, now, g.Report(now), 0.1, 0)
		}
	}
	if asks > 45 { // the interval is one second
		t.Errorf("%d asks in 30 s that all were in vain", asks)
	}
}

func TestAChangeOfDemandIsTold(t *testing.T) {
	g := eagerGroup(t, weighted(1000), 10)
	k := g.For("k")
	run := func(from, to Instant, perSecond int) (told []float64) {
		for now := from; now < to; now += second / 1000 {
			if int(now/(second/1000))%(1000/perSecond) == 0 {
				take(k, now, 1)
			}
			if now >= g.NextEarly() {
				for _, u := range granted(t, g, now, g.Early(now), 0.5, 500) {
					told = append(told, u.Wants[0])
				}
			}
		}
		return told
	}
	run(0, 3*second, 100)
	if told := run(3*second, 13*second, 100); len(told) > 1 {
		t.Errorf("steady demand was told early: %v", told)
	}
	if told := run(13*second, 14*second, 500); len(told) == 0 || told[len(told)-1] < 400 {
		t.Errorf("after a rise from 100 to 500/s: told %v", told)
	}
	if told := run(14*second, 16*second, 1); len(told) == 0 || told[len(told)-1] > 50 {
		t.Errorf("after a fall to 1/s: told %v", told)
	}
}

func TestAQuietKeyDoesNotReport(t *testing.T) {
	rule := weighted(100)
	rule.IdleAfter = time.Hour
	g := eagerGroup(t, rule, 10)
	take(g.For("k"), 0, 1)
	reports := 0
	for now := Instant(0); now < 30*second; now += second / 100 {
		if now >= g.NextEarly() {
			reports += len(granted(t, g, now, g.Early(now), 0, 5))
		}
		if now%second == 0 {
			reports += len(granted(t, g, now, g.Report(now), 0, 5))
		}
	}
	if reports > 10 { // from one a second to next to nothing, by a quarter each time
		t.Errorf("%d reports of a key that was used once", reports)
	}
	if g.NextEarly() != never {
		t.Error("it is still looked at")
	}
}

func TestAnUnansweredAskIsRepeated(t *testing.T) {
	g := eagerGroup(t, weighted(100), 10)
	k := g.For("k")
	take(k, 0, 6)
	b := g.Early(second / 20)
	if len(b) != 1 {
		t.Fatal("no first report")
	}
	g.Fail(second/20, b[0], []int{0})
	take(k, second/2, 100)
	if said := granted(t, g, second, g.Report(second), 0.1, 5); len(said) != 1 || said[0].Allowed[0]+said[0].Rejected[0] != 106 {
		t.Errorf("after a failed ask: %+v", said)
	}
}

func TestHostsIntroduceThemselvesToNewOwners(t *testing.T) {
	g := eagerGroup(t, weighted(100), 10)
	take(g.For("k"), 0, 50)
	granted(t, g, second, g.Report(second), 0.5, 10)
	g.Early(second)
	g.Introduce(2 * second)
	if due := g.NextEarly(); due > 2*second+Instant(introduction)*2 {
		t.Fatalf("after the ring changed, the next report is due at %v", time.Duration(due))
	}
	now := 2*second + Instant(introduction)*2
	if said := granted(t, g, now, g.Early(now), 0.5, 10); len(said) != 1 || said[0].Weight[0] != 0.5 {
		t.Errorf("the new owner hears %+v", said)
	}
}

func TestAnOwnerThatListensIsAskedAgain(t *testing.T) {
	g := eagerGroup(t, weighted(100), 10)
	take(g.For("k"), 0, 6)
	now := second / 20
	for _, b := range g.Early(now) {
		nothing := &rpc.Grants{Weight: []float64{0}, Burst: []float64{0}, Used: []float64{0}, Lease: []time.Duration{0}, Tokens: []float64{0}}
		if err := g.Apply(now, b, nil, nothing); err != nil {
			t.Fatal(err)
		}
	}
	if s := only(t, g, now, "k"); !s.Fallback || s.Level.Tokens < 4 {
		t.Errorf("an answer without a grant changed %+v", s)
	}
	now += 2 * Instant(introduction)
	if said := granted(t, g, now, g.Early(now), 0.5, 10); len(said) != 1 {
		t.Error("it was not asked again")
	}
}

// The estimate is quick where chance does not explain what is seen, and calm
// where it does.
func TestDemand(t *testing.T) {
	steady := demand{told: 100, fast: 100, known: memory}
	for i := range 1000 {
		n := 20 + []float64{-6, 3, 5, -4, 2, 0, -3, 7, -5, 1}[i%10] // of 20 ± 4.5
		if steady.tick(n, 0.2) {
			t.Fatalf("tick %d: %v events where 20 are expected are a change", i, n)
		}
	}
	for _, tt := range []struct {
		name          string
		d             demand
		n, dt         float64
		total, period float64
		least, most   float64
	}{
		{name: "first events of a new key", n: 2, dt: 0.02, total: 2, period: 0.02, least: 10, most: 30},
		{name: "a burst out of the quiet", d: demand{known: memory}, n: 12, dt: 0.1, total: 12, period: 5, least: 100, most: 140},
		{name: "one event out of the quiet", d: demand{known: memory}, n: 1, dt: 0.01, total: 1, period: 10, least: 0, most: 0.2},
		{name: "steady", d: demand{told: 100, fast: 100, known: memory}, n: 8, dt: 0.1, total: 290, period: 3, least: 95, most: 100},
		{name: "a jump", d: demand{told: 10, fast: 10, known: memory}, n: 150, dt: 0.1, total: 160, period: 1, least: 1400, most: 1600},
		{name: "a stop", d: demand{told: 100, quiet: 0.4, known: memory}, n: 0, dt: 0.1, total: 50, period: 1, least: 0, most: 5},
		{name: "rare events of a high cost are no jump", d: demand{told: 20, fast: 20, known: memory, cost: 20}, n: 40, dt: 0.1, total: 60, period: 3, least: 15, most: 25},
	} {
		if got := tt.d.estimate(tt.n, tt.dt, tt.total, tt.period); got < tt.least || got > tt.most {
			t.Errorf("%s: %v, want %v to %v", tt.name, got, tt.least, tt.most)
		}
	}
}

// An answer that comes when its key is forgotten must not undo that whoever
// still decides by the old share is heard.
func TestALateAnswerLeavesAForgottenShareAlone(t *testing.T) {
	g := eagerGroup(t, weighted(100), 10)
	k := g.For("k")
	take(k, 0, 6)
	granted(t, g, second, g.Report(second), 0.5, 10)
	s := k.share.Load()
	late := g.Report(3 * second) // nothing was used since, but its demand has gone
	other := weighted(100)
	other.Key = "other"
	g.Configure(3*second, snapshot(t, other))
	g.Report(3*second + 1)
	if len(late) != 1 || s.low.Load() != straggling {
		t.Fatalf("%d reports, and the old share is not listened to", len(late))
	}
	granted(t, g, 3*second+2, late, 0.5, 10)
	if s.low.Load() != straggling {
		t.Error("after the answer, the old share is not listened to")
	}
}

// Whoever still decides by a share that is no key's any more is heard, whatever
// the answer.
func TestAForgottenShareIsHeardWhateverItAnswers(t *testing.T) {
	for name, rule := range map[string]dynamicconfig.Rule{
		"allowed":   alone(1, 10),
		"refused":   {Key: "k", Limit: 0, Burst: 0, Algorithm: Even},
		"unlimited": alone(rate.Inf, 10),
	} {
		g := NewGroup(snapshot(t, alone(1, 10)), 1)
		s := newShare(0, "k", Even, &rule, 1, inf)
		s.group = g
		s.low.Store(straggling)
		if got, want := s.AllowAt(0, 1), name != "refused"; got != want {
			t.Errorf("%s: answered %v", name, got)
		}
		if len(g.stragglers) != 1 || s.low.Load() != neverLow {
			t.Errorf("%s: nobody hears of it", name)
		}
	}
}

// What only pockets know is reported as well.
func TestAnEagerKeyReportsWhatACrowdRefused(t *testing.T) {
	g := eagerGroup(t, weighted(100), 10)
	k := g.For("k")
	take(k, 0, 1)
	granted(t, g, second, g.Report(second), 0.5, 10)
	s, now := k.share.Load(), 2*second
	s.pulse.demand.told = 0
	if s.regular(now, time.Second) {
		t.Fatal("it reports that there was nothing")
	}
	c := &crowd{pockets: make([]pocket, 2)}
	s.crowd.Store(c)
	s.rejectFrom(&c.pockets[0], c)
	if said := granted(t, g, now, g.Report(now), 0.5, 10); len(said) != 1 || said[0].Rejected[0] != 1 {
		t.Errorf("said %+v", said)
	}
}

// However often somebody still decides by a share that is gone, it is heard.
func TestStragglersAreHeardEachTime(t *testing.T) {
	for _, back := range []bool{false, true} { // under the same algorithm: there is an heir
		g := eagerGroup(t, weighted(100), 10)
		k := g.For("k")
		take(k, 0, 6)
		granted(t, g, second, g.Report(second), 0.5, 10)
		s := k.share.Load()
		other := weighted(100)
		other.Key, other.Algorithm = "other", "lending"
		g.Configure(second, snapshot(t, other))
		now := 2 * second
		granted(t, g, now, g.Report(now), 0.5, 10)
		if back {
			again := weighted(100)
			again.Algorithm = "lending"
			g.Configure(now, snapshot(t, again))
			take(k, now, 1)
		}
		reported := int64(0)
		hear := func() {
			now += 3 * second
			for _, u := range granted(t, g, now, g.Report(now), 0.5, 10) {
				for i := range u.Keys {
					reported += u.Allowed[i] + u.Rejected[i]
				}
			}
		}
		hear()
		hear()
		was := reported
		for i := range int64(3) {
			s.AllowAt(now, 1)
			hear()
			hear() // what an heir was given is told with the next report
			if reported-was != i+1 {
				t.Errorf("back %v: %d reported after %d", back, reported-was, i+1)
			}
		}
	}
}
