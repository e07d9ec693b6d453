// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/rpc/usage"
)

// Owners leave one after the other, each before the hosts have reported to it. The last one knows what hosts hold
// of the first one's grants, as the second one did: its pool fills with no more than the rest of the limit.
func TestAnOwnerThatLeavesSoonHandsOverWhatItWasHanded(t *testing.T) {
	const limit, hosts = 1000, 5
	for _, row := range []struct {
		burst, used float64
		apart       time.Duration
	}{
		{1000, 1000, 10 * time.Millisecond},
		{1000, 0, 10 * time.Millisecond},
		{20, 0, 200 * time.Millisecond}, // after which the pool is full
	} {
		fills := func(owners int) float64 {
			now, of := time.Hour, under(t, autoRule(limit, row.burst))
			for ; now < time.Hour+20*s; now += s {
				for h := range hosts {
					u := reportOf("auto", 150, 0, s, "k")
					u.Wants, u.Weight[0] = []float64{150}, 0.1
					step(t, of, now, fmt.Sprint("h", h), u)
				}
			}
			took(t, of, now, usage.Take{Auto: true, Tokens: row.used, Spent: usage.SpentBeyond})
			for range owners {
				next := under(t, autoRule(limit, row.burst))
				next.Moved(now)
				for _, handed := range of.HandoverBuckets(now) {
					took(t, next, now, handed)
				}
				of, now = next, now+row.apart
			}
			took(t, of, now, usage.Take{Auto: true, Tokens: row.burst, Spent: usage.SpentBeyond})
			before := took(t, of, now, usage.Take{Auto: true}).Left
			return took(t, of, now+20*time.Millisecond, usage.Take{Auto: true}).Left - before
		}
		one := fills(1)
		for owners := range 3 {
			if many := fills(2 + owners); one > limit/100 || many > one+1e-6 {
				t.Errorf("%+v: within 20 ms, a pool that was handed over once fills by %v, and after %d times by %v", row, one, 2+owners, many)
			}
		}
	}
}
