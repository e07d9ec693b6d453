// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
)

// A key goes to another owner, and comes back. Meanwhile a host that does not know of that may keep it in use at the
// first owner, which must not lease out what the other one has leased.
func TestAKeyThatComesBackIsLearntAnew(t *testing.T) {
	for name, one := range map[string]bool{"a host stays": true, "no host stays": false} {
		rule := dynamicconfig.Rule{Limit: 100, Algorithm: "fair-share", Learning: 60 * s}
		first, other := leased(t, rule), leased(t, rule)
		moves := func(now time.Duration, to, from *Aggregator) {
			to.keys.Parent.Moved(func(string) bool { return true })
			from.keys.Parent.Moved(func(string) bool { return false })
			to.Moved(now)
			from.Moved(now)
		}
		const out, back = 1000 * s, 1120 * s
		stays := func(now time.Duration) {
			if one && claimed(t, first, now, wants("stays", 10, 10)).Amount != 10 {
				t.Errorf("%s: at %v it has not what it had", name, now)
			}
		}
		stays(out - s)
		moves(out, other, first)
		var far claims.Lease
		for now := out; now < back; now += cadence.UpdateInterval {
			far = claimed(t, other, now, wants("far", far.Amount, 90))
			stays(now)
			first.GC(now)
			other.GC(now)
		}
		if far.Amount != 90 {
			t.Errorf("%s: the other owner leases %v", name, far.Amount)
		}
		moves(back, first, other)
		for now := back + s; now <= back+120*s; now += 9 * s {
			fresh := claimed(t, first, now, wants("fresh", 0, 100))
			if now < back+60*s && fresh.Amount > 0 {
				t.Errorf("%s: at %v the other owner's 90 of 100 are leased, and %v more here", name, now, fresh.Amount)
			}
			if now > back+80*s && !(fresh.Amount > 0) {
				t.Errorf("%s: at %v it still learns", name, now)
			}
			first.GC(now)
		}
	}
}
