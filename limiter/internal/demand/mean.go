// SPDX-License-Identifier: Apache-2.0

package demand

import "math"

// Mean is a moving average of demand, in events/s, for a host that reports regularly
// only.
type Mean float64

// enough is so much cost that a mean over it is hardly chance any more, and
// needs no longer memory.
const enough = 200.0

// Add takes in a cost of total in so many seconds.
func (m *Mean) Add(total, seconds float64) {
	seconds = max(seconds, moment)
	latest, mean := total/seconds, float64(*m)
	kept := math.Exp(-seconds / min(memory, enough/max(mean, latest)))
	mean = latest + (mean-latest)*kept
	if total == 0 && mean < 1 {
		mean = 0
	}
	*m = Mean(mean)
}
