// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Events that wait for their tokens have them, whatever hosts report meanwhile: a rule without
// max_wait lets a bucket owe more than its deepest debt.
func TestAReportForgivesNoReservations(t *testing.T) {
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto} {
		rule := exactRule(10, 10)
		rule.Algorithm = name
		a := under(t, rule)
		for i := range 100 {
			if got := took(t, a, 0, usage.Take{Auto: name == algorithm.NameAuto, Tokens: 1, Longest: 20 * time.Second}); !got.OK {
				t.Fatalf("%s: event %d: %+v", name, i, got)
			}
		}
		step(t, a, 0, "h", reportOf(name, 0, 0, time.Second, "k"))
		if got := took(t, a, time.Second, usage.Take{Auto: name == algorithm.NameAuto}).Left; !near(got, -80) {
			t.Errorf("%s: %v tokens a second after 100 of 10 were reserved, want -80", name, got)
		}
	}
}

// Events that wait have their tokens, however hosts reach the pool by now, and then report.
func TestAChangeOfAlgorithmForgivesNoReservations(t *testing.T) {
	names := []string{algorithm.NameExact, algorithm.NameAuto}
	for _, first := range names {
		for _, then := range append(names, algorithm.NameElastic) {
			rule := exactRule(10, 10)
			rule.Algorithm = first
			a := under(t, rule)
			for range 100 {
				took(t, a, 0, usage.Take{Auto: first == algorithm.NameAuto, Tokens: 1, Longest: 20 * time.Second})
			}
			rule.Algorithm = then
			configured(t, a, 0, rule)
			for at := range time.Duration(5) {
				step(t, a, at*time.Second, "h", reportOf(then, 0, 0, time.Second, "k"))
			}
			if got := a.Look(4*time.Second, "k")[0]; !near(got.Tokens+got.Lent, -50) {
				t.Errorf("%s, then %s: %v tokens, and %v lent, 4 s after 100 of 10 were reserved, want -50", first, then, got.Tokens, got.Lent)
			}
			// And back again.
			rule.Algorithm = first
			configured(t, a, 5*time.Second, rule)
			if got := took(t, a, 5*time.Second, usage.Take{Auto: first == algorithm.NameAuto}).Left; !near(got, -40) {
				t.Errorf("%s, %s, and %s again: %v tokens after 5 s, want -40", first, then, first, got)
			}
		}
	}
}

// A debt that is deeper than charges may make becomes less with the limit, and does not take
// longer to pay back.
func TestADeepDebtFollowsTheLimit(t *testing.T) {
	for _, then := range []string{algorithm.NameExact, algorithm.NameAuto, algorithm.NameElastic} {
		rule := exactRule(10, 10)
		a := under(t, rule)
		for range 100 {
			took(t, a, 0, usage.Take{Tokens: 1, Longest: 20 * time.Second})
		}
		rule.Algorithm = then
		configured(t, a, 0, rule)
		step(t, a, 0, "h", reportOf(then, 0, 0, time.Second, "k"))
		rule.Limit, rule.Burst = 1, 1
		configured(t, a, 0, rule)
		step(t, a, 0, "h", reportOf(then, 0, 0, time.Second, "k"))
		if got := a.Look(0, "k")[0]; !near(got.Tokens+got.Lent, -9) {
			t.Errorf("%s: %v tokens, and %v lent, at a tenth of the limit; of -90 were left at all of it", then, got.Tokens, got.Lent)
		}
	}
}

// A host that has not heard that a key is under elastic now, or says so, brings the pool into no
// deeper debt than a charge may: its events do not wait for longer, and it hands nothing over.
func TestAHostThatHasNotHeardOfElasticMakesNoDeepDebt(t *testing.T) {
	for name, rule := range map[string]dynamicconfig.Rule{
		"neither": {}, "max_wait": {MaxWait: 5 * time.Second}, "max_debt": {MaxDebt: 5 * time.Second},
	} {
		rule.Key, rule.Limit, rule.Burst, rule.Lease, rule.Algorithm = "*", 10, 10, time.Minute, algorithm.NameElastic
		a := under(t, rule)
		step(t, a, 0, "h", reportOf(rule.Algorithm, 0, 0, time.Second, "k"))
		admitted := 0
		for i := range 1000 {
			if took(t, a, 0, usage.Take{Auto: i%2 == 0, Tokens: 1, Longest: rpc.MaxWait}).OK {
				admitted++
			}
		}
		took(t, a, 0, usage.Take{By: a.number + 1, Told: -1e6, Handed: true})
		if got, least := a.Look(0, "k")[0].Tokens, -rule.MostDebt(); got < least || admitted < 20 {
			t.Errorf("%s: %v tokens after %d events, want at least %v", name, got, admitted, least)
		}
	}
}

// The next owner knows of the events that wait, if the one before hands the key over.
func TestTheNextOwnerForgivesNoReservations(t *testing.T) {
	a := under(t, exactRule(10, 10))
	if got := took(t, a, 0, usage.Take{By: a.number + 1, Told: -90, Handed: true}).Left; !near(got, -90) {
		t.Errorf("%v tokens, want -90", got)
	}
}

// The time before a limit is raised counts by the limit of then: a bucket keeps its tokens.
// An owner whose hosts hold rates hears of the new limit with the next report, and hosts may
// have had it for an interval then.
func TestALimitThatIsRaisedMakesNoTokens(t *testing.T) {
	for name, most := range map[string]float64{algorithm.NameElastic: 11 + 1000, algorithm.NameAuto: 11, algorithm.NameExact: 11} {
		rule := exactRule(1, 10)
		rule.Algorithm = name
		a := under(t, rule)
		step(t, a, 0, "h", reportOf(name, 0, 0, time.Second, "k"))
		rule.Limit, rule.Burst = 1000, 10_000
		configured(t, a, 8*time.Second, rule)
		now := 8 * time.Second
		step(t, a, now, "h", reportOf(name, 0, 0, 8*time.Second, "k"))
		if got := a.Look(now, "k")[0]; got.Tokens+got.Lent > most {
			t.Errorf("%s: %v tokens, and %v are lent, of a burst that was 10 until now", name, got.Tokens, got.Lent)
		}
	}
}

// Hosts that hear late of a lower limit go on using the earlier one. The debt that this makes is no
// deeper than a charge may make.
func TestALimitThatIsLoweredMakesNoDeepDebt(t *testing.T) {
	for _, name := range []string{algorithm.NameElastic, algorithm.NameAuto} {
		rule := exactRule(1000, 10)
		rule.Algorithm = name
		a := under(t, rule)
		g, now := &usage.Grants{Weight: []float64{0}}, time.Duration(0)
		report := func() {
			r := reportOf(name, int64(1000*g.Weight[0]), 2000, time.Second, "k")
			r.Weight = []float64{g.Weight[0]}
			g = step(t, a, now, "h", r)
			now += time.Second
		}
		for range 5 {
			report()
		}
		before := a.Look(now, "k")[0]
		rule.Limit, rule.Burst = 10, 10
		configured(t, a, now, rule)
		report()
		if got := a.Look(now-time.Second, "k")[0]; got.Tokens+got.Lent < -rule.MostDebt() {
			t.Errorf("%s: %v tokens, and %v are lent; %v and %v before the limit became lower", name, got.Tokens, got.Lent, before.Tokens, before.Lent)
		}
	}
}

// A key fills by a lower limit from the time on when that comes into force, also if no host asks for the key until later.
func TestAKeyFillsByALowerLimitFromItsTimeOn(t *testing.T) {
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto, algorithm.NameElastic} {
		rule := exactRule(1000, 100)
		rule.Algorithm = name
		a := under(t, rule)
		step(t, a, 0, "h", reportOf(name, 0, 0, time.Second, "k"))
		took(t, a, 0, usage.Take{Auto: name == algorithm.NameAuto, Tokens: 100, Spent: usage.SpentBeyond})
		rule.Limit = 1
		configured(t, a, 0, rule)
		if got := took(t, a, 10*time.Second, usage.Take{Auto: name == algorithm.NameAuto}).Left; got > 11 {
			t.Errorf("%s: %v tokens 10 s after an empty bucket got a limit of 1/s", name, got)
		}
	}
}

// A host uses its rate until the limit becomes lower, and tells the owner after that. The tokens came in under
// the earlier limit, so the key has no debt.
func TestALowerLimitMakesNoDebtOfWhatCameInBefore(t *testing.T) {
	for _, name := range []string{algorithm.NameAuto, algorithm.NameElastic} {
		rule := exactRule(40, 100)
		rule.Algorithm = name
		a := under(t, rule)
		for now := range time.Duration(10) {
			step(t, a, now*time.Second, "h", reportOf(name, min(40, int64(now)*40), 0, time.Second, "k"))
		}
		before := a.Look(9*time.Second, "k")[0]
		rule.Limit = 1
		configured(t, a, 10*time.Second, rule)
		now := 10*time.Second + 500*time.Millisecond
		step(t, a, now, "h", reportOf(name, 40, 0, 1500*time.Millisecond, "k"))
		after := a.Look(now, "k")[0]
		if has, had := after.Tokens+after.Lent, before.Tokens+before.Lent; math.Abs(has-had-0.5) > 0.1 {
			t.Errorf("%s: half a second after the limit became 1/s, the key has %v tokens; it had %v", name, has, had)
		}
	}
}

// A key is not forgotten while it is in debt, though no host uses it any more.
func TestADebtIsNotForgottenWithItsHosts(t *testing.T) {
	rule := exactRule(0.1, 10)
	rule.Algorithm, rule.MaxDebt = algorithm.NameElastic, time.Hour
	a := under(t, rule)
	step(t, a, 0, "h", reportOf(rule.Algorithm, 0, 0, time.Second, "k"))
	step(t, a, time.Second, "h", reportOf(rule.Algorithm, 400, 0, time.Second, "k"))
	now := time.Second
	for range 10 {
		now += time.Minute
		a.GC(now)
	}
	step(t, a, now, "h2", reportOf(rule.Algorithm, 0, 0, time.Second, "k"))
	if got := a.Look(now, "k")[0].Tokens; got > -300 {
		t.Errorf("%v tokens 10 minutes after a charge of 400, want about -330", got)
	}
	for range 100 {
		now += time.Minute
		a.GC(now)
	}
	if n := a.keys.Len(); n != 0 {
		t.Error("a key that is full by now is not forgotten")
	}
}

// A bucket that has as much as the smaller side of a split may have is not full: it is not
// forgotten, and not full when the split ends.
func TestABucketIsNotForgottenInASplit(t *testing.T) {
	a := under(t, exactRule(1e-3, 100))
	took(t, a, 0, usage.Take{Tokens: 30})
	a.Split(0, 1, 1)
	a.GC(time.Second)
	a.Split(0, 1, 0)
	if got := left(t, a, 2*time.Second); got > 71 {
		t.Errorf("%v tokens, of which there were 70", got)
	}
}

// Nor is a bucket that was just handed over, from which nothing was taken here: whether in a
// split, or below a parent.
func TestABucketIsNotForgottenWhenItIsHandedOver(t *testing.T) {
	for _, parent := range []bool{false, true} {
		rule := exactRule(1, 100)
		rule.Parent = parent
		a := under(t, rule)
		took(t, a, 0, usage.Take{By: a.number + 1, Told: -50, Handed: true})
		if !parent {
			a.Split(0, 1, 1)
		}
		a.GC(time.Second)
		a.Split(0, 1, 0)
		if got := left(t, a, 2*time.Second); got > 0 {
			t.Errorf("parent %v: %v tokens, of which there were -50", parent, got)
		}
	}
}

// A program that uses up a quota for a day, and then waits until the owner forgets its hosts, gets no
// second quota.
func TestAQuotaIsNotForgottenWithItsHosts(t *testing.T) {
	for _, name := range []string{algorithm.NameElastic, algorithm.NameAuto, algorithm.NameExact} {
		rule := exactRule(1000./86400, 1000)
		rule.Algorithm = name
		a := under(t, rule)
		step(t, a, 0, "h", reportOf(name, 0, 0, time.Second, "k"))
		if name == algorithm.NameElastic {
			step(t, a, time.Second, "h", reportOf(name, 1000, 0, time.Second, "k"))
		} else {
			took(t, a, time.Second, usage.Take{Auto: name == algorithm.NameAuto, Tokens: 1000, Spent: usage.SpentBeyond})
		}
		now := time.Second
		for range 10 {
			now += time.Minute
			a.GC(now)
		}
		step(t, a, now, "h2", reportOf(name, 0, 0, time.Second, "k"))
		if got := a.Look(now, "k")[0]; got.Tokens+got.Lent > 20 {
			t.Errorf("%s: %v tokens, and %v are lent, ten minutes after all of 1000 a day were used", name, got.Tokens, got.Lent)
		}
	}
}
