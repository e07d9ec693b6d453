// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math/rand/v2"
)

// Bump is a jump of a walk.
type Bump struct {
	At      Time
	To, Add float64 // events/s: to, if it is not 0; else add more
}

// Bumped is a walk that jumps and goes on from there.
type Bumped struct {
	Walk

	Bumps []Bump // in order of time
}

// Segments implements Rate.
func (b Bumped) Segments(r *rand.Rand) Segments {
	rate, step, bumps := b.Start, b.Every, b.Bumps
	return func(from Time) (float64, Time) {
		for {
			switch {
			case len(bumps) > 0 && bumps[0].At <= from && bumps[0].At <= step:
				if rate += bumps[0].Add; bumps[0].To > 0 {
					rate = bumps[0].To
				}
				bumps = bumps[1:]
			case step <= from:
				rate *= 1 + b.Step*(2*r.Float64()-1)
				step += b.Every
			case len(bumps) > 0:
				return rate, min(step, bumps[0].At)
			default:
				return rate, step
			}
		}
	}
}
