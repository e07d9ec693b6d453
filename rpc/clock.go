// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"time"
)

// within is longest, or less if ctx ends before: then three quarters of what
// is left, so that there is time to answer who asked.
func within(ctx context.Context, longest time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(longest, max(time.Until(deadline), 0)*3/4)
	}
	return longest
}

// began is what clock counts from.
var began = time.Now()

// clock is the time that takes are told by.
func clock() time.Duration { return time.Since(began) }

// alarm returns a timer that rings once after d.
func alarm(d time.Duration) *time.Timer { return time.NewTimer(d) }

// later calls f in a goroutine of its own after d.
func later(d time.Duration, f func()) { time.AfterFunc(d, f) }

// until is how long it is to deadline.
func until(deadline time.Time) time.Duration { return time.Until(deadline) }
