// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

// An owner gets no time for half a minute, and all hosts go on with the next one. Then it goes on with
// what it knew, and half of the hosts are back: together, or one before the other. The others are dead,
// and these have all of the limit, once.
func TestAPausedOwnerGoesOnWithWhatItKnew(t *testing.T) {
	for _, name := range []string{"elastic", "request-weighted", "auto", "fair-share", "pool/fair-share"} {
		for _, late := range []int{0, 1, 3} { // rounds in which one host only is back
			made := func() *Aggregator {
				a := New(algorithm.Builtin(), snapshot(t, dynamicconfig.Properties{}, dynamicconfig.Rule{Key: "*", Limit: 100, Burst: 100, Algorithm: name, Lease: 15 * s}))
				a.Moved(-time.Hour)
				return a
			}
			paused, next := made(), made()
			c := newCrowd(paused, 100, 90, 90, 90, 90)
			for h := range c.names {
				c.names[h] = name
			}
			rounds := func(when string) {
				t.Helper()
				for i := range 10 {
					c.round(t, 3*s)
					switch {
					case i < 4 && name == "request-weighted": // a host that is new gets its part beside those of the others
					case i < 4 && !(c.sum() <= 1.25), i >= 4 && !(c.sum() <= 1.03), i == 9 && c.sum() < 0.9 && name != "auto":
						t.Errorf("%s, %d late, %s: in round %d weights %.2f sum to %.2f", name, late, when, i, c.weight, c.sum())
					}
				}
			}
			rounds("at first")
			next.Moved(c.now)
			c.a = next
			rounds("at the next owner")
			back := newCrowd(paused, 100, 90)
			back.names[0], back.now, back.last[0] = name, c.now, c.now-3*s
			for range late { // one host does not know yet that the next owner has the key
				if back.round(t, 3*s); !(back.sum() <= 1) {
					t.Errorf("%s: one host has %.2f", name, back.sum())
				}
				c.round(t, 3*s)
			}
			c.a, c.wants, c.weight = paused, c.wants[:2], c.weight[:2]
			rounds("back")
		}
	}
}
