// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"math"
	"sync/atomic"
)

// latest is how many events an average of Costs is of, about.
const latest = 8

// Costs is the average cost of the latest events for which a remote was asked. The zero value has seen
// none. Safe for concurrent use: of two events at once, one may be lost.
type Costs struct{ average atomic.Uint64 } // float64 bits

// Usual takes in an event of cost n, which is 0 or more, and returns the average. That is never more than
// the largest cost.
func (c *Costs) Usual(n int64) float64 {
	average := math.Float64frombits(c.average.Load())
	if n > 0 {
		average += (float64(n) - average) / latest
		c.average.Store(math.Float64bits(average))
	}
	return average
}
