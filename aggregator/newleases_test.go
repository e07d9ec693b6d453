// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
)

// Amounts that no host bounds take from no host: not at a new owner that learns, and not when
// they are handed over.
func TestWhatIsNotBoundTakesFromNobodyAtANewOwner(t *testing.T) {
	for _, way := range []string{"none", "static"} {
		rule := dynamicconfig.Rule{
			Limit: 100, Algorithm: "fair-share", Priorities: map[int64]string{-5: way},
			Recalculate: dynamicconfig.None, Learning: 30 * s,
		}
		old, learns, heir := leased(t, rule), leased(t, rule), leased(t, rule)
		old.Moved(-time.Hour)
		learns.Moved(0)
		heir.Moved(-time.Hour)
		loose := func(has float64) claims.Claim {
			return claims.Claim{Key: "k", Host: "loose", Has: has, Bands: []claims.Band{{Priority: -5, Clients: 1, Wants: 80}}}
		}
		both := func(has float64) claims.Claim {
			c := wants("both", has, 30)
			c.Bands = append(c.Bands, loose(0).Bands...)
			return c
		}
		first := claimed(t, old, 0, loose(0)).Amount
		more, bound := claimed(t, old, 0, both(0)).Amount, claimed(t, old, 0, wants("bound", 0, 70)).Amount
		if first != 80 || bound != 70 || way == "none" && more != 110 {
			t.Fatalf("%s: %v, %v and %v", way, first, more, bound)
		}
		handOver(old, heir, s)
		for name, a := range map[string]*Aggregator{"learns": learns, "was told": heir} {
			keep := func(c claims.Claim) claims.Claim {
				c.Keep = true
				return c
			}
			if got := claimed(t, a, 2*s, keep(loose(first))).Amount; got != 80 {
				t.Errorf("%s, an owner that %s: the loose host gets %v, want 80", way, name, got)
			}
			if got := claimed(t, a, 2*s, keep(both(more))).Amount; got != more {
				t.Errorf("%s, an owner that %s: the host with both gets %v, want %v", way, name, got, more)
			}
			if got := claimed(t, a, 2*s, wants("bound", bound, 70)).Amount; got != 70 {
				t.Errorf("%s, an owner that %s: the bound host gets %v, want 70", way, name, got)
			}
			if got := claimed(t, a, 2*s, wants("new", 0, 70)).Amount; got != 0 {
				t.Errorf("%s, an owner that %s: a new host gets %v, and all is out", way, name, got)
			}
		}
	}
}

// Learning ends early when all slots are accounted for, and not before.
func TestLearningLastsToTheLastSlot(t *testing.T) {
	rule := slotsOf(2000)
	rule.Learning = 30 * s
	a := leased(t, rule)
	a.Moved(0)
	for _, tt := range []struct {
		host            string
		has, want, gets float64
	}{{"a", 1998, 1998, 1998}, {"new", 0, 100, 0}, {"b", 2, 2, 2}, {"new", 0, 100, 0}, {"a", 1890, 1890, 1890}, {"new", 0, 100, 100}} {
		if got := claimed(t, a, s, wants(tt.host, tt.has, tt.want)); got.Amount != tt.gets {
			t.Errorf("%s has %v and wants %v: it gets %v, want %v", tt.host, tt.has, tt.want, got.Amount, tt.gets)
		}
	}
}

// A host that keeps gets no more than it holds, whatever it says and however long it keeps.
func TestAHostThatKeepsGetsNoMoreThanItHeld(t *testing.T) {
	for _, way := range []string{"none", "static", "proportional-share", "fair-share"} {
		for _, learning := range []time.Duration{dynamicconfig.None, time.Hour} {
			a := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: way, Recalculate: dynamicconfig.None, Learning: learning})
			a.Moved(0)
			keep := wants("a", 10, 1e15)
			for keep.Keep = true; ; keep.Has = 1e15 {
				if got := claimed(t, a, s, keep).Amount; got != 10 {
					t.Fatalf("%s, learning %v: it keeps %v, and had 10", way, learning, got)
				}
				if keep.Has > 10 {
					break
				}
			}
			for at := s; at < 10*time.Minute; at += 20 * s {
				if got := claimed(t, a, at, keep).Amount; got > 10 {
					t.Fatalf("%s, learning %v, at %v: it keeps %v, and had 10", way, learning, at, got)
				}
			}
		}
	}
}

// A host holds a part of the limit, at the next owner too: under a limit that rises it has more.
func TestPartsThatAreHandedOverFollowTheLimit(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		rule := slotsOf(50)
		rule.InFlight = inFlight
		old, heir := leased(t, rule), leased(t, rule)
		if got := holder(t, old, 0, "fair-share", "a", 50, 0); got != 1 {
			t.Fatalf("%v, want all", got)
		}
		handOver(old, heir, s)
		rule.Limit = 100
		become(t, heir, s, rule)
		if got := holder(t, heir, s, "fair-share", "b", 100, 0); got != 0 {
			t.Errorf("in flight %v: another host gets %v beside all", inFlight, got)
		}
		rule.Limit = 10
		become(t, heir, 2*s, rule)
		if got := holder(t, heir, 2*s, "fair-share", "b", 100, 0); got != 0 {
			t.Errorf("in flight %v, under a lower limit: another host gets %v beside all", inFlight, got)
		}
	}
}

// Slots in use are handed over, also if there are more of them than were granted last.
func TestSlotsInUseAreHandedOver(t *testing.T) {
	old, heir := leased(t, slotsOf(10)), leased(t, slotsOf(10))
	claimed(t, old, 0, wants("a", 0, 10))
	claimed(t, old, 0, wants("b", 0, 10))
	if got := claimed(t, old, s, wants("a", 10, 10)).Amount; got != 5 {
		t.Fatalf("%v, want 5", got)
	}
	handOver(old, heir, 2*s)
	if got := claimed(t, heir, 2*s, wants("b", 0, 10)).Amount; got != 0 {
		t.Errorf("%v slots beside 10 of 10 that are in use", got)
	}
}

// Hosts hear of a new owner before it does. An owner whose own ring says that another host owns
// a key learns what others hold, also if the first that claims it holds nothing.
func TestAnOwnerWhoseRingIsLateLearnsBeforeItLeases(t *testing.T) {
	for _, owner := range []string{"me", "another"} {
		a := leased(t, dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share", Learning: 30 * s, Recalculate: dynamicconfig.None})
		a.RingMoved(Cluster{Placement: always(owner), Self: "me"})
		a.Moved(-time.Hour) // the ring is an old one
		late := owner != "me"
		for i, tt := range []struct {
			at        time.Duration
			host      string
			has, want float64 // if the ring is late
		}{{0, "new", 0, 0}, {s, "a", 60, 60}, {2 * s, "new", 0, 0}, {31 * s, "a", 60, 50}, {32 * s, "new", 0, 50}} {
			got := claimed(t, a, tt.at, wants(tt.host, tt.has, 100)).Amount
			if late && got != tt.want || !late && i == 0 && got != 100 {
				t.Errorf("the key is of %s: %s gets %v at %v", owner, tt.host, got, tt.at)
			}
		}
	}
}
