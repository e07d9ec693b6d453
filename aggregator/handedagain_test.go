// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/rpc/usage"
)

// Each move of the ring has all earlier owners of a key hand it over, also those that did before. The
// key's owner has taken since then what none of them knows of, or what the latest of them knows of
// already: it is not charged again.
func TestAKeyThatIsHandedOverAgainIsChargedOnce(t *testing.T) {
	const limit, burst, hosts = 100, 50, 5
	for name, moves := range map[string][][2]int{ // from which owner to which, every 600 ms
		"the same earlier owner":    {{0, 1}, {1, 1}, {0, 1}},
		"an owner that comes back":  {{0, 1}, {1, 2}, {2, 1}},
		"to the earlier owner":      {{0, 1}, {1, 0}, {0, 1}},
		"as before, and the second": {{0, 1}, {1, 2}, {1, 2}},
	} {
		now := time.Hour
		all := []*Aggregator{under(t, autoRule(limit, burst)), under(t, autoRule(limit, burst)), under(t, autoRule(limit, burst))}
		for range 10 {
			for h := range hosts { // each wants too little for a rate, so none holds one
				u := reportOf("auto", 1, 0, s, "k")
				u.Wants, u.Weight[0] = []float64{10}, 1e-12
				step(t, all[0], now, fmt.Sprint("h", h), u)
			}
			now += s
		}
		took(t, all[0], now, usage.Take{Auto: true, Tokens: burst, Spent: usage.SpentBeyond})
		used := 0
		for i, move := range moves {
			if move[0] != move[1] {
				for _, of := range all {
					of.Moved(now)
				}
				for _, row := range all[move[0]].Buckets(now, func(string) bool { return true }) {
					took(t, all[move[1]], now, row)
				}
			}
			for range 600 {
				now += time.Millisecond
				if took(t, all[move[1]], now, usage.Take{Auto: true, Tokens: 1}).OK {
					used++
				}
			}
			if least := (i+1)*limit*6/10 - limit/4; used < least {
				t.Errorf("%s: %.1f s after the key moved first, %d events have passed, of a limit of %d/s", name, 0.6*float64(i+1), used, limit)
			}
		}
	}
}
