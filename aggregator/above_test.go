// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

const s = time.Second

// below is a decider of 1000/s at most, whose capacity comes from above.
func below(t testing.TB, r dynamicconfig.Rule, options ...Option) *Aggregator {
	r.Limit, r.Parent = 1000, true
	return leased(t, r, options...)
}

// answered has a ask at now, wants the one claim to be due, and answers it.
func answered(t testing.TB, a *Aggregator, now time.Duration, l claims.Lease) claims.Claim {
	t.Helper()
	asked := a.Parent().Ask(now, "region")
	if asked == nil {
		t.Fatalf("at %v nothing is asked", now)
	}
	a.Parent().Hear(now, asked, &claims.Leases{Rows: []claims.Lease{l}}, nil)
	return asked.Rows[0]
}

func lease(amount float64) claims.Lease {
	return claims.Lease{Amount: amount, Lasts: 60 * s, Refresh: 8 * s, Learns: 30 * s}
}

// A new owner has heard of some hosts only, and would give the others' part
// away if it said what it knows of their demand.
func TestAClusterThatLearnsOnlyKeepsWhatItHas(t *testing.T) {
	for name, report := range map[string]func(*Aggregator){
		"fair-share": func(a *Aggregator) { claimed(t, a, 0, wants("first", 20, 30)) },
		"elastic": func(a *Aggregator) {
			step(t, a, 0, "first", reportOf("elastic", 30, 0, s, "k"))
		},
		"request-weighted": func(a *Aggregator) {
			step(t, a, 0, "first", reportOf("request-weighted", 30, 0, s, "k"))
		},
	} {
		a := below(t, dynamicconfig.Rule{Algorithm: name, Learning: 30 * s})
		report(a)
		for _, at := range []time.Duration{0, s / 2} {
			l := lease(166)
			l.Refresh = s / 2
			if c := answered(t, a, at, l); !c.Keep {
				t.Errorf("%s: at %v it claims %+v", name, at, c)
			}
		}
		if c := answered(t, a, 31*s, lease(166)); c.Keep || len(c.Bands) != 1 || !(c.Bands[0].Wants > 0) || c.Has != 166 {
			t.Errorf("%s: when it knows its hosts it claims %+v", name, c)
		}
	}
}

// Nobody has anything to keep when a whole tree is new. That is no decision that
// hosts get nothing.
func TestNothingToKeepIsNoDecision(t *testing.T) {
	for _, learning := range []bool{true, false} {
		a := below(t, dynamicconfig.Rule{Algorithm: "fair-share", Learning: 30 * s})
		u := reportOf("fair-share", 10, 0, s, "k")
		step(t, a, 0, "host", u)
		nothing := lease(0)
		nothing.Learning = learning
		if !learning {
			nothing.Learns = 0
		}
		answered(t, a, 0, nothing)
		if g := step(t, a, s, "host", u); g.Lease[0] != 0 {
			t.Errorf("above learns: %v; the host gets %+v instead of going on with its fallback", learning, g)
		}
		if learning {
			continue
		}
		if c := answered(t, a, s, lease(100)); c.Keep || len(c.Bands) == 0 {
			t.Errorf("then it claims %+v, and not what its hosts want", c)
		}
		if g := step(t, a, 2*s, "host", u); !near(g.Weight[0], 0.011) {
			t.Errorf("then the host gets %+v, not what it wants and headroom", g)
		}
	}
}

func TestLearningEndsWhenAllThatIsLeasedIsKnown(t *testing.T) {
	a := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share", Learning: 30 * s})
	for _, tt := range []struct {
		at       time.Duration
		c        claims.Claim
		gets     float64
		learning bool
	}{
		{1 * s, wants("a", 60, 90), 60, true},
		{2 * s, wants("new", 0, 10), 0, true},
		{3 * s, wants("b", 40, 20), 40, true}, // now all of the 100 are known
		{9 * s, wants("b", 40, 20), 20, false},
		{10 * s, wants("new", 0, 10), 10, false},
	} {
		if got := claimed(t, a, tt.at, tt.c); !near(got.Amount, tt.gets) || got.Learning != tt.learning {
			t.Errorf("at %v %s gets %+v, want %v", tt.at, tt.c.Host, got, tt.gets)
		}
	}
}

// No lease outlives the one from above, so a new owner need not learn for longer
// than that one would have lasted.
func TestLearningEndsWithTheLeaseOfBefore(t *testing.T) {
	parent := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share", Recalculate: dynamicconfig.None})
	claimed(t, parent, 0, claims.Claim{Key: "k", Host: "region", Bands: []claims.Band{{Clients: 3, Wants: 90}}})
	// The owner dies, and the next one comes 50 s later.
	child := below(t, dynamicconfig.Rule{Algorithm: "fair-share", Learning: 60 * s})
	child.Moved(50 * s)
	claimed(t, child, 50*s, wants("alive", 20, 80))
	climb := func(now time.Duration) claims.Claim {
		asked := child.Parent().Ask(now, "region")
		child.Parent().Hear(now, asked, parent.Claim(now, asked), nil)
		return asked.Rows[0]
	}
	if c := climb(50 * s); !c.Keep {
		t.Fatalf("it claims %+v", c)
	}
	for _, tt := range []struct {
		at   time.Duration
		gets float64
	}{{55 * s, 20}, {61 * s, 80}} {
		if got := claimed(t, child, tt.at, wants("alive", 20, 80)); !near(got.Amount, tt.gets) {
			t.Errorf("at %v: %+v, want %v", tt.at, got, tt.gets)
		}
	}
	if c := climb(70 * s); c.Keep {
		t.Errorf("still learning: %+v", c)
	}
}

// The owner above counts its lease from its answer, which may be under way for seconds.
func TestALeaseFromAboveIsAsOldAsTheClaimThatItAnswers(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: "fair-share", Lease: 90 * s})
	claimed(t, a, 0, wants("host", 0, 500))
	asked := a.Parent().Ask(90*s, "region") // it has learned by then
	a.Parent().Hear(99*s, asked, &claims.Leases{Rows: []claims.Lease{lease(500)}}, nil)
	for _, tt := range []struct{ at, ends time.Duration }{{100 * s, 150 * s}, {149 * s, 150 * s}, {151 * s, 0}} {
		got := claimed(t, a, tt.at, wants("host", 0, 500))
		if tt.ends > 0 && (got.Amount == 0 || tt.at+got.Lasts > tt.ends) || tt.ends == 0 && got.Amount > 0 {
			t.Errorf("at %v, of 60 s from a claim at 90 s on: %+v", tt.at, got)
		}
	}
}

// A key loses its cluster above, and gets one again, while a claim is under way. The answer to that
// claim changes nothing: a lease lasts from the claim on, and the owner has forgotten its time.
func TestAnAnswerToAnEarlierClaimIsNoLease(t *testing.T) {
	with := terms(dynamicconfig.Rule{Limit: 1000, Parent: true, Algorithm: "request-weighted"})
	without := with
	without.Parent = false
	a := below(t, with)
	step(t, a, 0, "host", reportOf("request-weighted", 40, 0, s, "k"))
	late := a.Parent().Ask(0, "region")
	for _, rule := range []dynamicconfig.Rule{without, with} {
		a.Core.Configure(0, snapshot(t, cadence, rule))
		step(t, a, s, "host", reportOf("request-weighted", 40, 0, s, "k"))
	}
	a.Parent().Hear(2*s, late, &claims.Leases{Rows: []claims.Lease{lease(100)}}, nil)
	if c := answered(t, a, 2*s, lease(50)); c.Has != 0 {
		t.Errorf("it claims %+v, and has what was leased before", c)
	}
}

// A claimant that speaks for others falls back to what they would all fall back
// to.
func TestWhatIsSafeIsSoForEachClient(t *testing.T) {
	for _, tt := range []struct {
		rule dynamicconfig.Rule
		safe float64
	}{
		{dynamicconfig.Rule{}, 90},
		{dynamicconfig.Rule{Fallback: dynamicconfig.FallbackSafe, SafeCapacity: 7}, 63},
	} {
		tt.rule.Limit, tt.rule.Algorithm = 100, "fair-share"
		a := leased(t, tt.rule)
		claimed(t, a, 0, wants("a", 0, 1))
		if got := claimed(t, a, 0, claims.Claim{Key: "k", Host: "dc", Bands: []claims.Band{{Clients: 9, Wants: 1}}}); !near(got.Safe, tt.safe) {
			t.Errorf("%+v: safe is %v, want %v", tt.rule, got.Safe, tt.safe)
		}
	}
}

func TestWhenTheLeaseFromAboveEndsWhatIsSafeIsShared(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: "proportional-share", Recalculate: dynamicconfig.None})
	claimed(t, a, 0, wants("a", 0, 60))
	l := lease(60)
	l.Safe = 30
	answered(t, a, 0, l)
	claimed(t, a, s, wants("a", 0, 60))
	refused := l
	refused.Amount, refused.Learning = 0, true
	for at := 8 * s; at < 100*s; at += 8 * s {
		if asked := a.Parent().Ask(at, "region"); asked != nil {
			if at < 80*s {
				a.Parent().Hear(at, asked, nil, []error{errors.New("away")})
			} else { // it is back, and learns that nobody has anything
				a.Parent().Hear(at, asked, &claims.Leases{Rows: []claims.Lease{refused}}, nil)
			}
		}
		want := 60.0
		if at >= 60*s {
			want = 30
		}
		if got := claimed(t, a, at, wants("a", 60, 60)); !near(got.Amount, want) {
			t.Errorf("at %v: %+v, want %v", at, got, want)
		}
	}
}

// A host below knows the rule's limit, and not how little of it came from above.
func TestNobodyTakesWhatIsLeftOfTheRulesLimit(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: "request-weighted"})
	u := reportOf("request-weighted", 30, 0, s, "k")
	step(t, a, 0, "host", u)
	answered(t, a, 4*s, lease(50))
	g := step(t, a, 5*s, "host", u)
	if g.Floor != usage.FloorUnused || !near(g.Weight[0], 0.05) || g.Used[0] < 1000 {
		t.Errorf("50 of 1000 came from above: %+v lets the host take up to the even share", g)
	}
}

// A new owner has hosts keep what they have while it learns. The rest of the rule's limit is not
// theirs then either.
func TestNobodyTakesWhatIsLeftOfTheRulesLimitWhileTheOwnerLearns(t *testing.T) {
	u := reportOf("request-weighted", 10, 0, s, "k")
	u.Weight[0] = 0.01
	above := below(t, dynamicconfig.Rule{Algorithm: "request-weighted", Learning: 30 * s})
	split := leased(t, dynamicconfig.Rule{Limit: 1000, Algorithm: "request-weighted", Learning: 30 * s})
	split.Split(0, 1, 3)
	for where, a := range map[string]*Aggregator{"below a parent": above, "on the smaller side of a split": split} {
		a.Moved(0)
		g := step(t, a, s/10, "host", u)
		if g.Weight[0] != 0.01 || g.Floor != usage.FloorUnused || g.Used[0] < 1000 {
			t.Errorf("%s, a host that has 10/s of 1000/s gets %+v", where, g)
		}
	}
}

// The cluster above knows what hosts under elastic want.
func TestEveryAlgorithmSaysWhatItsHostsWant(t *testing.T) {
	registry := algorithm.Builtin()
	for _, name := range registry.Names() {
		a := below(t, dynamicconfig.Rule{Algorithm: name})
		for at := time.Duration(0); at < 10*s; at += s {
			u := reportOf(name, 40, 0, s, "k")
			u.Wants = []float64{40}
			step(t, a, at, "host", u)
		}
		asked := a.Parent().Ask(10*s, "region")
		if asked == nil {
			t.Errorf("%s asks for nothing", name)
			continue
		}
		if b := asked.Rows[0].Bands; len(b) != 1 || !(b[0].Wants >= 39 && b[0].Wants <= 60) || b[0].Clients != 1 {
			t.Errorf("%s: bands are %+v", name, b)
		}
	}
}

// Levels ask more often from level to level, and get a new answer when they do.
func TestWhoAsksWhenItWasToldToGetsANewAnswer(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: "proportional-share", Recalculate: 5 * s})
	claimed(t, a, 0, wants("a", 0, 10))
	answered(t, a, 0, lease(100))
	first := claimed(t, a, s, wants("a", 0, 10))
	if first.Refresh != 4*s || !near(first.Amount, 10) {
		t.Fatalf("%+v", first)
	}
	if got := claimed(t, a, 2*s, wants("a", 10, 50)); !near(got.Amount, 10) {
		t.Errorf("too early: %+v", got)
	}
	if got := claimed(t, a, 5*s, wants("a", 10, 50)); !near(got.Amount, 50) {
		t.Errorf("in time: %+v", got)
	}
}

// A claim above follows what hosts want sooner than when it is time to ask
// again, but not all the time.
func TestAClusterAsksEarlyWhenItsDemandChanges(t *testing.T) {
	for _, tt := range []struct {
		wants float64
		early bool
	}{{20, true}, {5, true}, {10.1, false}, {10, false}} {
		a := below(t, dynamicconfig.Rule{Algorithm: "proportional-share", Recalculate: dynamicconfig.None})
		claimed(t, a, 0, wants("a", 0, 10))
		answered(t, a, 0, lease(10)) // refresh in 8 s
		claimed(t, a, s, wants("a", 10, tt.wants))
		if asked := a.Parent().Ask(s, "region"); asked != nil {
			t.Errorf("%v wanted: asked at once, so a host can make it ask all the time", tt.wants)
		}
		claimed(t, a, 2*s, wants("a", 10, tt.wants))
		asked := a.Parent().Ask(2*s, "region")
		if (asked != nil) != tt.early {
			t.Errorf("%v wanted instead of 10: asked early %v", tt.wants, asked != nil)
		}
		if asked != nil && asked.Rows[0].Bands[0].Wants != tt.wants {
			t.Errorf("it asks %+v", asked.Rows[0])
		}
	}
}

// Little demand that falls is no reason to ask the cluster above early, and that hosts ask this owner often
// is none to ask it more often than every MinRefresh.
func TestAClusterAsksNoMoreOftenThanItHelps(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: "auto"})
	report := func(now time.Duration, rejected int64) { step(t, a, now, "h", reportOf("auto", 0, rejected, s, "k")) }
	report(0, 9) // of 1,000
	report(s, 9)
	answered(t, a, s, lease(20))
	report(4*s, 0)
	if asked := a.Parent().Ask(4*s, "region"); asked != nil {
		t.Errorf("it asks early: %+v", asked.Rows)
	}
	report(5*s, 50)
	if asked := a.Parent().Ask(5*s, "region"); asked == nil {
		t.Error("it does not ask for more at once")
	}

	a = below(t, dynamicconfig.Rule{Algorithm: "fair-share"})
	claimed(t, a, 0, wants("h", 0, 5))
	answered(t, a, 0, claims.Lease{Amount: 10, Lasts: s, Refresh: parent.MinRefresh})
	if l := claimed(t, a, 0, wants("h", 5, 5)); l.Refresh != parent.MinRefresh {
		t.Errorf("its hosts are to ask after %v", l.Refresh)
	}
}

// A host whose decider has heard nothing from above goes on with what it has, or
// with its fallback, whatever is safe; and what it has is not forgotten.
func TestNobodyGetsAGrantBeforeThereIsSomethingToGrant(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: "fair-share", Learning: 30 * s, Fallback: dynamicconfig.FallbackSafe, SafeCapacity: 5})
	for _, at := range []time.Duration{0, 29 * s, 40 * s} {
		u := reportOf("fair-share", 10, 0, s, "k")
		u.Weight[0] = 0.04 // of 1000
		if g := step(t, a, at, "host", u); g.Lease[0] != 0 {
			t.Errorf("at %v: %+v", at, g)
		}
	}
	if c := answered(t, a, 40*s, lease(40)); c.Has != 40 {
		t.Errorf("it claims %+v, while its host has 40", c)
	}
}

// An owner that leaves claims nothing more of the cluster above: the next owners do.
func TestAnOwnerThatLeftClaimsNothing(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: "fair-share"})
	claimed(t, a, 0, wants("first", 0, 30))
	network := rpctest.New(1)
	network.Host("heir").Serve(below(t, dynamicconfig.Rule{Algorithm: "fair-share"}))
	left := Cluster{Placement: always("heir"), Peers: network.Host("old").Peers(), Host: "old", Self: "old", Leaving: true}
	if err := a.HandOver(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	if asked := a.Parent().Ask(time.Minute, "region"); asked != nil {
		t.Errorf("it claims %+v", asked.Rows)
	}
}
