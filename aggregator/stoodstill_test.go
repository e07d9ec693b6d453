// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

// An owner hangs for as long as a lease, and hosts go on with the next one. The first to ask the
// owner that is back is one that could not reach the other, and has no lease any more.
func TestAnOwnerThatStoodStillLeasesNothingTwice(t *testing.T) {
	for _, swept := range []bool{false, true} { // before the first host asks
		rule := dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share", Learning: 60 * s, Recalculate: dynamicconfig.None}
		a := leased(t, rule)
		a.Moved(-100 * s)
		for now := s; now <= 60*s; now += s {
			for _, host := range []string{"cut off", "one", "two"} {
				claimed(t, a, now, wants(host, 0, 100))
			}
			a.GC(now)
		}
		const back = 121 * s // the next owner has learned, and leases 50 to each
		if swept {
			a.GC(back)
		}
		if got := claimed(t, a, back, wants("cut off", 0, 100)); got.Amount != 0 {
			t.Errorf("swept %v: it leases out %v, and all is leased", swept, got.Amount)
		}
		for _, host := range []string{"one", "two"} {
			if got := claimed(t, a, back, wants(host, 50, 100)); got.Amount != 50 {
				t.Errorf("swept %v: host %s has %v left of 50", swept, host, got.Amount)
			}
		}
		for now := back + s; now <= back+70*s; now += s {
			a.GC(now)
		}
		if got := claimed(t, a, back+70*s, wants("cut off", 0, 100)); got.Amount != 100 {
			t.Errorf("swept %v: it learns for ever", swept)
		}
	}
}

// The first sweep after update_interval became shorter, or longer, comes later than two of them.
func TestAnOwnerDoesNotStandStillWhenItsIntervalChanges(t *testing.T) {
	for _, to := range []time.Duration{3 * s, 300 * s} {
		with := func(interval time.Duration) *dynamicconfig.Snapshot {
			rule := dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: "fair-share", Lease: 310 * s, Recalculate: dynamicconfig.None}
			if interval < 30*s {
				rule.Lease = 30 * s
			}
			return snapshot(t, dynamicconfig.Properties{UpdateInterval: interval}, rule)
		}
		a := New(algorithm.Builtin(), with(30*s))
		a.Moved(-1000 * s)
		claimed(t, a, s, wants("one", 0, 10))
		a.GC(2 * s)
		if err := a.Configure(with(to)); err != nil {
			t.Fatal(err)
		}
		claimed(t, a, 3*s, wants("one", 10, 10))
		a.GC(2*s + max(to, 29*s))
		if got := claimed(t, a, 3*s+max(to, 29*s), wants("two", 0, 10)); got.Amount != 10 {
			t.Errorf("%v: it leases %v out, and 90 are free", to, got.Amount)
		}
	}
}
