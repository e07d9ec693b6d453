// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
)

// Hosts ask although they hold tokens, and keep all that they are lent. Then all is used
// at once. What they hold takes room in the pool, so that it does not fill up beside it.
func TestHoardersKeepTheLimit(t *testing.T) {
	for _, limit := range []algorithm.Limit{{Rate: 1, Burst: 100}, {Rate: 30, Burst: 100}, {Rate: 200, Burst: 100}, {Rate: 1000, Burst: 100}, {Rate: 1000, Burst: 1000}} {
		for _, n := range []int{2, 8, 20} {
			for _, step := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
				if got, most := hoarded(limit, n, step), limit.Burst+overshoot(limit, interval); got > most {
					t.Errorf("%+v: %d hosts that ask every %v have %v at once, of at most %v", limit, n, step, got, most)
				}
			}
		}
	}
}

// hoarded is what n hosts and the pool have at the end of an interval in which the hosts
// have asked in turn, 14 times in each step.
func hoarded(limit algorithm.Limit, n int, step time.Duration) float64 {
	k, hosts := askedOf(limit), make([]askingHost, n)
	for i := range hosts {
		hosts[i].id = uint32(i)
		hosts[i].report(k, 0, limit, 1)
	}
	now, turn := time.Duration(0), 0
	for ; now < interval-step; now += step {
		h := &hosts[turn%n]
		turn++
		h.advance(now)
		for range 14 {
			ok := k.open(now, bucketOf(limit)).Take(now, 1, 0).OK
			if k.close(now); ok {
				h.tokens += k.lends(now, h.id, limit.Burst-h.tokens, h.tokens, 1000, 1)
				h.burst = math.Max(h.burst, h.tokens)
			}
		}
	}
	sum := k.open(now, bucketOf(limit)).Level(now)
	for i := range hosts {
		hosts[i].advance(now)
		sum += hosts[i].tokens
	}
	return sum
}
