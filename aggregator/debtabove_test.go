// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// A cluster's part of the limit comes and goes. Callers that wait get no more than the part
// lets through, a burst, and what the larger part promised once: a debt that became less each
// time would let through twice as much.
func TestAPartThatComesAndGoesForgivesNoDebt(t *testing.T) {
	const burst, patience, end, large, small = 100, 10, 60 * s, 100, 10
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto} {
		for _, parts := range [][2]float64{{large, large}, {large, small}} {
			a := below(t, dynamicconfig.Rule{Algorithm: name, Burst: burst, MaxWait: patience * s})
			take := usage.Take{Tokens: 1, Longest: patience * s, Auto: name == algorithm.NameAuto}
			took(t, a, 0, take)
			admitted, most, part := 0.0, float64(burst), 0.0
			for at := time.Duration(0); at < end; at += 10 * time.Millisecond {
				if at%(2*s) == 0 {
					part = parts[at/(2*s)%2]
					l := lease(part)
					l.Refresh = s
					answered(t, a, at, l)
					a.GC(at)
				}
				if at%s == 0 {
					step(t, a, at, "h", reportOf(name, 0, 1, s, "k"))
				}
				most += part / 100
				for range 3 {
					if got := took(t, a, at, take); got.OK && at+got.Wait <= end {
						admitted++
					}
				}
			}
			if promised := patience * (large - parts[1]); admitted > most+promised || admitted < 0.9*most {
				t.Errorf("%s, parts %v: %v tokens in a minute, want %v, and %v that were promised", name, parts, admitted, most, promised)
			}
		}
	}
}
