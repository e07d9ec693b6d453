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
	type move struct {
		from []int // owners that hand the key over
		to   int   // the one that has it for 600 ms
	}
	for name, moves := range map[string][]move{
		"the same earlier owner":   {{[]int{0}, 1}, {nil, 1}, {[]int{0}, 1}},
		"an owner that comes back": {{[]int{0}, 1}, {[]int{1}, 2}, {[]int{2}, 1}},
		"to the earlier owner":     {{[]int{0}, 1}, {[]int{1}, 0}, {[]int{0}, 1}},
		"two earlier owners":       {{[]int{0}, 1}, {[]int{0, 1}, 2}, {nil, 2}, {[]int{0, 1}, 2}},
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
			for _, of := range all {
				of.Moved(now)
			}
			for _, from := range move.from {
				for _, row := range all[from].Buckets(now, func(string) bool { return true }) {
					took(t, all[move.to], now, row)
				}
			}
			for range 600 {
				now += time.Millisecond
				if took(t, all[move.to], now, usage.Take{Auto: true, Tokens: 1}).OK {
					used++
				}
			}
			if least := (i+1)*limit*6/10 - limit/4; used < least {
				t.Errorf("%s: %.1f s after the key moved first, %d events have passed, of a limit of %d/s", name, 0.6*float64(i+1), used, limit)
			}
		}
	}
}
