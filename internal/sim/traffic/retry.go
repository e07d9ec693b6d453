// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math"
	"math/rand/v2"
	"time"
)

// Retry says what a client does after a rejection: it waits, and tries again.
type Retry struct {
	After  time.Duration // before the second try
	Factor float64       // by which each wait is longer than the one before
	Cap    time.Duration // the longest wait, before jitter
	Jitter float64       // part of a wait that is drawn anew: 0 none, 1 all of it
	Tries  int           // at most, the first included
}

// Wait returns how long a client waits that was rejected so many times.
func (t Retry) Wait(r *rand.Rand, rejections int) time.Duration {
	wait := min(float64(t.After)*math.Pow(t.Factor, float64(rejections-1)), float64(t.Cap))
	return time.Duration(wait * (1 - t.Jitter*r.Float64()))
}
