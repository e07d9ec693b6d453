// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// Time is virtual time since the start of the run.
type Time = time.Duration

// Chance returns the source of chance for one purpose and one number, such as
// a host's. Each has its own, so that what is drawn for one thing does not
// shift what is drawn for another.
func Chance(seed uint64, purpose string, number int) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose)) // a hash's Write returns no error
	return rand.New(rand.NewPCG(seed, h.Sum64()+uint64(number)*0x9e3779b97f4a7c15))
}

// Span is a range of durations, both ends included; a single duration has
// From == To.
type Span struct{ From, To time.Duration }

// Draw returns a duration in s, with equal chance.
func (s Span) Draw(r *rand.Rand) time.Duration {
	return s.From + time.Duration(r.Float64()*float64(s.To-s.From))
}

// Exponential draws from the exponential distribution of mean 1.
func Exponential(r *rand.Rand) float64 { return -math.Log(1 - r.Float64()) }
