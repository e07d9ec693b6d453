// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
)

// Rules may have a parent where this cluster has none, and keys come and go.
func TestKeysThatAreGoneLeaveNoChildrenIfNobodyAsksAbove(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Key: "*", Algorithm: "fair-share"})
	now := time.Duration(0)
	for round := range 5 {
		for i := range 10 {
			claimed(t, a, now, claims.Claim{Key: fmt.Sprint(round, ":", i), Host: "h", Bands: []claims.Band{{Clients: 1, Wants: 1}}})
		}
		if n := a.Parent().Len(); n != 10 {
			t.Fatalf("round %d: %d children of 10 keys", round, n)
		}
		now += time.Hour
		a.GC(now)
		if n, keys := a.Parent().Len(), a.keys.Len(); n != 0 || keys != 0 {
			t.Fatalf("round %d: %d children and %d keys after all are gone", round, n, keys)
		}
	}
}

// While the cluster above has never answered, an owner leases out nothing but what is safe, and says that
// this is no decision: also when it has learnt what hosts have. A cluster below that is told so does not take
// it for all that there is.
func TestWithoutAnAnswerFromAboveNothingIsDecided(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: "fair-share"})
	for _, now := range []time.Duration{0, 100 * s} {
		if got := claimed(t, a, now, wants("h", 0, 10)); got.Amount != 0 || !got.Learning {
			t.Errorf("at %v: %+v", now, got)
		}
	}
	answered(t, a, 100*s, lease(100))
	if got := claimed(t, a, 110*s, wants("h", 0, 10)); !near(got.Amount, 10) || got.Learning {
		t.Errorf("with an answer: %+v", got)
	}
}

// Anyone may write what asks the cluster above.
func TestNonsenseFromAboveIsNoAnswer(t *testing.T) {
	for name, leases := range map[string]*claims.Leases{
		"none":      nil,
		"too few":   {},
		"too many":  {Rows: make([]claims.Lease, 2)},
		"NaN":       {Rows: []claims.Lease{lease(math.NaN())}},
		"below 0":   {Rows: []claims.Lease{lease(-1)}},
		"infinite":  {Rows: []claims.Lease{lease(math.Inf(1))}},
		"for years": {Rows: []claims.Lease{{Amount: 1, Lasts: math.MaxInt64}}},
	} {
		for _, errs := range [][]error{nil, {}, {nil, nil}} {
			a := below(t, dynamicconfig.Rule{Algorithm: "fair-share"})
			claimed(t, a, 0, wants("first", 20, 30))
			asked := a.Parent().Ask(0, "region")
			if asked == nil {
				t.Fatal("nothing is asked")
			}
			a.Parent().Hear(0, asked, leases, errs)
			if soon := a.Parent().Ask(time.Second, "region"); soon == nil || len(soon.Rows) != 1 || soon.Rows[0].Has != 20 {
				t.Errorf("%s, %d errors: asks for %+v again", name, len(errs), soon)
			}
		}
	}
}

// other is a Placement of all keys at another host.
type other struct{}

func (other) Owner(string) string { return "other" }

// An owner whose key has moved must not claim for it any more: the new owner does, in the
// name of the same cluster.
func TestAnOwnerBeforeClaimsNothingAbove(t *testing.T) {
	parent := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share", Recalculate: dynamicconfig.None, Learning: dynamicconfig.None})
	climb := func(a *Aggregator, now time.Duration) {
		if asked := a.Parent().Ask(now, "region"); asked != nil {
			a.Parent().Hear(now, asked, parent.Claim(now, asked), nil)
		}
	}
	before, after := below(t, dynamicconfig.Rule{Algorithm: "elastic"}), below(t, dynamicconfig.Rule{Algorithm: "elastic"})
	now := 10 * s
	use := func(a *Aggregator) {
		now += s
		step(t, a, now, "host", reportOf("elastic", 40, 0, s, "k"))
		climb(a, now)
	}
	for range 20 {
		use(before)
	}
	before.RingMoved(Cluster{Placement: other{}, Self: "me"})
	for range 20 { // the owner before still has the key
		use(after)
		before.GC(now)
		climb(before, now)
		if got := claimed(t, parent, now, wants("another region", 0, 100)); got.Amount > 65 {
			t.Fatalf("another region gets %v of 100 beside one that uses 40", got.Amount)
		}
	}
}

// Two changes of the ring come at once. The hand-over that follows the first may run after the
// owner has heard of the second: the owner claims for the keys that it owns by the second.
func TestALateHandOverDoesNotSayWhoClaimsAbove(t *testing.T) {
	a := below(t, dynamicconfig.Rule{Algorithm: "elastic"})
	first, second := Cluster{Placement: other{}, Self: "me"}, Cluster{Placement: always("me"), Self: "me"}
	a.RingMoved(first)
	a.RingMoved(second)
	for _, c := range []Cluster{second, first} {
		if err := a.HandOver(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	step(t, a, 0, "host", reportOf("elastic", 40, 0, s, "k"))
	if asked := a.Parent().Ask(s, "region"); asked == nil {
		t.Error("the owner claims nothing for its key")
	}
	second.Leaving = true
	if err := a.HandOver(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	step(t, a, s, "host", reportOf("elastic", 40, 0, s, "another"))
	if asked := a.Parent().Ask(2*s, "region"); asked != nil {
		t.Errorf("an owner that has left claims %+v", asked.Rows)
	}
}

// A rule that migrates has two accounts of a key. The cluster above has one claimant, whose
// demand is that of the account that answers.
func TestOnlyTheAccountThatAnswersClaimsAbove(t *testing.T) {
	parent := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share", Recalculate: dynamicconfig.None})
	rule := func(mode dynamicconfig.Mode) dynamicconfig.Rule {
		return terms(dynamicconfig.Rule{Limit: 1000, Parent: true, Migration: &dynamicconfig.Migration{From: "request-weighted", To: "elastic", Mode: mode}})
	}
	a := below(t, rule(dynamicconfig.ModeOldShadowNew))
	now := 10 * s
	for round := range 60 {
		now += s
		names := []string{"elastic", "request-weighted"}
		switch {
		case round == 20:
			a.Core.Configure(0, snapshot(t, cadence, rule(dynamicconfig.ModeNew)))
			fallthrough
		case round > 20:
			names = names[:1]
		}
		for _, name := range names {
			if g := step(t, a, now, "host", reportOf(name, 40, 0, s, "k")); round > 2 && !(g.Weight[0] >= 0.038 && g.Weight[0] < 0.06) {
				t.Errorf("round %d, %s: %+v", round, name, g)
			}
		}
		a.GC(now)
		if asked := a.Parent().Ask(now, "region"); asked != nil {
			a.Parent().Hear(now, asked, parent.Claim(now, asked), nil)
		}
		if got := claimed(t, parent, now, wants("another region", 0, 100)); round > 2 && got.Amount > 65 {
			t.Fatalf("round %d: another region gets %v of 100 beside one that uses 40", round, got.Amount)
		}
	}
}

// The grants of a shadow are no leases: the next owner must not take them for some.
func TestAShadowHandsNothingOver(t *testing.T) {
	a := leased(t, dynamicconfig.Rule{Limit: 100, Migration: &dynamicconfig.Migration{From: "fair-share", To: "none", Mode: dynamicconfig.ModeOldShadowNew}})
	for at := s; at < 5*s; at += s {
		for _, name := range []string{"fair-share", "none"} {
			for _, host := range []string{"a", "b"} {
				step(t, a, at, host, reportOf(name, 100, 100, s, "k"))
			}
		}
	}
	held := 0.0
	for _, part := range a.Handover(5 * s) {
		for _, row := range part.Rows {
			held += row.Has
		}
	}
	if held > 100 {
		t.Errorf("hosts hold %v of 100", held)
	}
}
