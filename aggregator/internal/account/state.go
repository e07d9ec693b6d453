// SPDX-License-Identifier: Apache-2.0

package account

import (
	"math"
	"time"

	"github.com/headgate/headgate/algorithm"
)

// State is what the owner of a key knows of it, beside what it knows of each host.
type State struct {
	// Pooled says that the key has one pool of tokens: Tokens are those in it, negative in
	// debt, and Lent those that hosts hold, as far as they have reported.
	Pooled       bool
	Tokens, Lent float64

	// Over is by how many tokens more than Rate·t + Burst of the limit hosts have been
	// allowed and have not yet made up for, as far as they have reported; of amounts, by
	// how much those that are leased exceed the limit. What was charged into debt counts.
	Over float64

	// Bound is the most that Over can be while all hosts reach the owner, as the algorithm
	// states it; +Inf if it states none.
	Bound float64
}

// Unbounded is the Bound of an algorithm that states none.
var Unbounded = math.Inf(1)

// Holding is what the owner of a key knows of one host.
type Holding struct {
	Host uint32

	// Wants is what the host wants, in the unit of the limit, Weight the part of the limit
	// that it has as a rate or an amount, and Lent the tokens that it has beside that.
	Wants, Weight, Lent float64

	// LastReport is when the host reported last, and Until when its lease ends; 0 if the
	// account does not keep that.
	LastReport, Until time.Duration
}

// Meter is a perfect bucket of a key, for accounts without a pool: it measures by how much
// hosts exceed the limit. What was used long ago no longer counts: after an absurd report, Over is
// right again within longest. The zero Meter is full.
type Meter struct {
	missing float64 // tokens from a full bucket
	at      time.Duration
}

// longest is for how many seconds of the limit the bucket is filled up at most.
const longest = 3600

// Use takes n tokens that a host used until now, under limit.
func (m *Meter) Use(now time.Duration, limit algorithm.Limit, n float64) {
	m.missing, m.at = m.missingAt(now, limit)+n, now
	if most := limit.Burst + limit.Rate*longest; m.missing > most {
		m.missing = most
	}
}

// Over is by how many tokens the bucket is below empty at now. Hosts report what they used in
// an interval at once, so the bucket is larger by what the limit gives in late.
func (m *Meter) Over(now time.Duration, limit algorithm.Limit, late time.Duration) float64 {
	return max(m.missingAt(now, limit)-limit.Burst-limit.Rate*late.Seconds(), 0)
}

func (m *Meter) missingAt(now time.Duration, limit algorithm.Limit) float64 {
	if left := m.missing - limit.Rate*Seconds(now-m.at); left > 0 {
		return left
	}
	return 0
}
