// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"math"
	"time"
)

// Instant is a point on the process's monotonic clock, in nanoseconds. It does
// not jump when the wall clock is set. The zero Instant is 40 years before the
// process began, so that it is in the past in a bubble of testing/synctest too,
// whose clock begins in the year 2000.
type Instant int64

// start is what Instants count from.
var start = time.Now().Add(-40 * 365 * 24 * time.Hour)

// Now reads the monotonic clock, once and without the wall clock, which
// takes about half as long as time.Now.
func Now() Instant { return Instant(time.Since(start)) }

// At is the Instant of t. It uses t's monotonic reading when t has one. It
// saturates a century before and after the process began, so that Instants are
// less than 2⁶³ ns apart.
func At(t time.Time) Instant { return min(max(Instant(t.Sub(start)), -1<<61), 1<<62-1) }

// Time is the wall time of i, for people and for APIs that take a time.Time.
func (i Instant) Time() time.Time { return start.Add(time.Duration(i)) }

// Add is i moved by d; it saturates.
func (i Instant) Add(d time.Duration) Instant {
	sum := i + Instant(d)
	switch {
	case d > 0 && sum < i:
		return math.MaxInt64
	case d < 0 && sum > i:
		return math.MinInt64
	}
	return sum
}

// Sub is how much later i is than j; it saturates.
func (i Instant) Sub(j Instant) time.Duration {
	d := time.Duration(i - j)
	switch {
	case i >= j && d < 0:
		return math.MaxInt64
	case i < j && d > 0:
		return math.MinInt64
	}
	return d
}
