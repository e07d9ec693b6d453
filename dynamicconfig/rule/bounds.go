// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"math"
	"time"
)

// Bounds of what a configuration may ask for.
const (
	// MaxLimit is the largest limit, in events/s.
	MaxLimit = 1e12
	// MaxBurst is the largest burst, in tokens.
	MaxBurst = 1e12
	// MaxCost is the largest cost of one event, in tokens.
	MaxCost = 1e12
	// MaxRefill is how long an empty bucket may take to fill: ten years.
	MaxRefill = 10 * 365 * 24 * time.Hour
	// MinAskTimeout is the shortest ask_timeout of a rule.
	MinAskTimeout = time.Millisecond
	// MaxAskTimeout is the longest ask_timeout of a rule.
	MaxAskTimeout = 10 * time.Second
	// DefaultAskTimeout is some tens of round trips within a data centre, and
	// outlasts a pause of the garbage collector or of the scheduler. Most callers
	// cannot wait much longer for an answer.
	DefaultAskTimeout = 20 * time.Millisecond
	// MaxSlots is the largest limit of what is in flight, in slots.
	MaxSlots = 1_000_000_000
	// MaxKeyLength is the longest key or pattern, in bytes.
	MaxKeyLength = 1024
	// MaxBands is how many bands a rule's Priorities may name.
	MaxBands = 16
	// MaxParameters is how many Parameters a rule may have.
	MaxParameters = 32
)

// LargestBurst is the most whole tokens that a limit, in events/s, fills within MaxRefill.
func LargestBurst(limit float64) float64 {
	return min(math.Floor(limit*MaxRefill.Seconds()), MaxBurst)
}
