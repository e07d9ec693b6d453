// SPDX-License-Identifier: Apache-2.0

package account

import "time"

// Asking is how many tokens hosts have recently asked for.
type Asking struct {
	tokens float64       // since
	since  time.Duration // the last Look
	rate   float64       // per second, a recent average
}

// Idle is the demand, in tokens/s, below which nothing is wanted any more. Demand that has
// ended is halved with each look at it, and would never become 0.
const Idle = 1e-3

// NewAsking returns the Asking of a key for which no host has asked by now.
func NewAsking(now time.Duration) Asking { return Asking{since: now} }

// Add notes that a host asks for so many tokens.
func (a *Asking) Add(tokens float64) { a.tokens += tokens }

// Look brings the rate up to now.
func (a *Asking) Look(now time.Duration) {
	if d := Seconds(now - a.since); d > 0.1 {
		if a.rate += (a.tokens/d - a.rate) / 2; a.rate < Idle {
			a.rate = 0
		}
		a.tokens, a.since = 0, now
	}
}

// Since is how long ago at now the last Look was.
func (a *Asking) Since(now time.Duration) time.Duration { return now - a.since }

// Wants is the demand, in tokens/s: before the first Look, that of all there was.
func (a *Asking) Wants() float64 {
	if a.rate == 0 {
		return a.tokens
	}
	return a.rate
}
