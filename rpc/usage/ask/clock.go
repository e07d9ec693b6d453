// SPDX-License-Identifier: Apache-2.0

package ask

import "time"

// began is what clock counts from.
var began = time.Now()

// clock is the time for queues and answers.
func clock() time.Duration { return time.Since(began) }

// alarm returns a timer that rings once after d.
func alarm(d time.Duration) *time.Timer { return time.NewTimer(d) }

// later calls f in a goroutine of its own after d.
func later(d time.Duration, f func()) { time.AfterFunc(d, f) }

// until is how long it is to deadline.
func until(deadline time.Time) time.Duration { return time.Until(deadline) }
