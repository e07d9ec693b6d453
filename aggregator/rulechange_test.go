// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
)

// holder is what host gets that wants so much and has such a part of the limit.
func holder(t testing.TB, a *Aggregator, now time.Duration, name, host string, wants, has float64) (weight float64) {
	t.Helper()
	return wanted(t, a, now, name, host, wants, has).Weight[0]
}

// become has a follow r from now on.
func become(t testing.TB, a *Aggregator, now time.Duration, r dynamicconfig.Rule) {
	t.Helper()
	a.Core.Configure(now, snapshot(t, cadence, terms(r)))
}

// handOver gives to heir what hosts hold at old.
func handOver(old, heir *Aggregator, now time.Duration) {
	for _, part := range old.Handover(now) {
		heir.Claim(now, part)
	}
}

// Leases go on under another algorithm, for hosts that have heard of it and for those that have not.
func TestAnotherAlgorithmLeasesNothingASecondTime(t *testing.T) {
	names := []string{"fair-share", "proportional-share", "claims/mine"}
	registry := func() *algorithm.Registry {
		r := algorithm.Builtin()
		if err := r.Register("mine", algorithm.FairShare); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, from := range names {
		for _, to := range names {
			rule := dynamicconfig.Rule{Limit: 100, Algorithm: from, Learning: 30 * time.Second, Recalculate: dynamicconfig.None}
			a := New(registry(), snapshot(t, cadence, terms(rule)))
			a.Moved(-time.Hour)
			first := holder(t, a, 0, from, "reports", 60, 0) // and headroom
			if second := claimed(t, a, 0, wants("claims", 0, 100)).Amount; !near(first*100+second, 100) {
				t.Fatalf("%v and %v of 100", first, second)
			}
			rule.Algorithm = to
			become(t, a, s, rule)
			if got := claimed(t, a, s, wants("new", 0, 100)).Amount; !near(got, 0) {
				t.Errorf("%s to %s: %v are leased while others hold all", from, to, got)
			}
			if from != to { // a host has not heard of it
				if got := holder(t, a, 2*s, from, "reports", 60, first); got != 0 {
					t.Errorf("%s to %s: a host under the earlier algorithm is granted %v", from, to, got)
				}
				if got := claimed(t, a, 3*s, wants("new", 0, 100)).Amount; !near(got, 0) {
					t.Errorf("%s to %s: %v are leased while a host has not heard of the change", from, to, got)
				}
			}
			out := 0.0
			for range 3 {
				out = holder(t, a, 4*s, to, "reports", 60, 0)*100 + claimed(t, a, 4*s, wants("claims", 0, 100)).Amount + claimed(t, a, 4*s, wants("new", 0, 100)).Amount
			}
			if !near(out, 100) || a.keys.Len() != 1 {
				t.Errorf("%s to %s: %v are leased in the end, of %d keys", from, to, out, a.keys.Len())
			}
		}
	}
}

// Averages go on under another algorithm: a host with a quarter of the demand has a quarter.
func TestAnotherAlgorithmKeepsAverages(t *testing.T) {
	names := []string{algorithm.NameRequestWeighted, algorithm.NameEvenFloor, "average/fair-share"}
	for _, from := range append(names, algorithm.NameDropRatio) {
		for _, to := range names {
			a := under(t, every(from))
			report := func(at time.Duration, name, host string) float64 {
				return step(t, a, at, host, reportOf(name, 25, 0, s, "k")).Weight[0]
			}
			for at := range 3 {
				for host := range 4 {
					report(time.Duration(at)*s, from, fmt.Sprint(host))
				}
			}
			a.Core.Configure(0, snapshot(t, cadence, every(to)))
			if got := report(3*s, to, "0"); !near(got, 0.25) {
				t.Errorf("%s to %s: the host gets %v, want a quarter", from, to, got)
			}
			if a.keys.Len() != 1 {
				t.Errorf("%s to %s: %d keys", from, to, a.keys.Len())
			}
		}
	}
}

func slotsOf(limit rate.Limit) dynamicconfig.Rule {
	return dynamicconfig.Rule{Limit: limit, InFlight: true, Algorithm: "fair-share", Recalculate: dynamicconfig.None}
}

// A host that may have fewer slots from now on has those that are in use until it says that
// they are not.
func TestALowerLimitFreesNoSlotInUse(t *testing.T) {
	a := leased(t, slotsOf(20))
	if got := holder(t, a, 0, "fair-share", "a", 10, 0); got != 0.5 {
		t.Fatalf("%v of 20, want 10", got)
	}
	become(t, a, 0, slotsOf(10))
	if got := holder(t, a, s, "fair-share", "b", 10, 0); got != 0 {
		t.Errorf("%v of 10 slots beside the 10 that are in use", got*10)
	}
	holder(t, a, 2*s, "fair-share", "a", 10, 0.7) // three came back
	if got := holder(t, a, 3*s, "fair-share", "b", 10, 0); got != 0.3 {
		t.Errorf("%v of 10 slots beside the 7 that are in use", got*10)
	}
}

// A host has a part of the limit while that is 0, and uses it again when it is more.
func TestALimitOfZeroForAMomentLeasesNothingTwice(t *testing.T) {
	for _, inFlight := range []bool{false, true} {
		for _, after := range []rate.Limit{50, 100, 200} {
			rule := slotsOf(100)
			rule.InFlight = inFlight
			a := leased(t, rule)
			if got := holder(t, a, 0, "fair-share", "a", 100, 0); got != 1 {
				t.Fatalf("%v, want all", got)
			}
			for _, limit := range []rate.Limit{0, after} {
				rule.Limit = limit
				become(t, a, s, rule)
				a.GC(s)
			}
			if got := holder(t, a, s, "fair-share", "b", 100, 0); got != 0 {
				t.Errorf("in flight %v, 0 and then %v: another host gets %v beside all", inFlight, after, got)
			}
		}
	}
}

// A slot is whole under another limit, and under a limit of rates that becomes one of slots.
func TestSlotsStayWholeUnderAnotherLimit(t *testing.T) {
	for _, to := range []rate.Limit{1, 5, 7, 10, 15, 31} {
		for _, inFlight := range []bool{false, true} {
			rule := slotsOf(10)
			rule.InFlight = inFlight
			a := leased(t, rule)
			holder(t, a, 0, "fair-share", "a", 3, 0)
			if claimed(t, a, 0, wants("c", 0, 2.5)); !inFlight {
				holder(t, a, 0, "fair-share", "b", 3.3, 0)
			}
			rule = slotsOf(to)
			become(t, a, s, rule)
			a.GC(s)
			for _, part := range a.Handover(s) {
				for _, row := range part.Rows {
					if row.Has != float64(int(row.Has)) {
						t.Errorf("in flight %v, 10 to %v: %s holds %v slots", inFlight, to, row.Host, row.Has)
					}
					kept := claimed(t, a, 2*s, claims.Claim{Key: "k", Host: row.Host, Has: row.Has, Keep: true})
					if kept.Amount != float64(int(kept.Amount)) || kept.Amount > row.Has {
						t.Errorf("in flight %v, 10 to %v: %s keeps %v slots of %v", inFlight, to, row.Host, kept.Amount, row.Has)
					}
				}
			}
		}
	}
}

// A report says a weight rounded down to 8 bits. A new owner leases nothing of what a host has
// beyond that.
func TestANewOwnerMindsThatReportsRoundWhatHostsHave(t *testing.T) {
	for _, wants := range []float64{1.26, 4.2, 4.58, 5.03, 8} {
		rule := dynamicconfig.Rule{Limit: 10, Algorithm: "fair-share", Learning: 20 * time.Second, Recalculate: dynamicconfig.None}
		owner := func() *Aggregator {
			a := New(algorithm.Builtin(), snapshot(t, cadence, terms(rule)))
			a.Moved(-time.Hour)
			return a
		}
		old := owner()
		has := holder(t, old, 0, "fair-share", "reports", wants, 0)
		rule.Algorithm = "proportional-share"
		become(t, old, 0, rule)
		heir := owner()
		handOver(old, heir, 0)
		holder(t, heir, 0, "fair-share", "reports", wants, float64(math.Float32frombits(math.Float32bits(float32(has))&^0xffff)))
		row := claims.Claim{Key: "k", Host: "claims", Bands: []claims.Band{{Clients: 1, Wants: 100}}}
		if got := claimed(t, heir, 0, row).Amount; has*10+got > 10+1e-6 {
			t.Errorf("a host has %v of 10, and another is leased %v", has*10, got)
		}
	}
}
