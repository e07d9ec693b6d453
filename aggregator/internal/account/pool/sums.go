// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/account/past"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sum"
)

// level is how many tokens the pool has, and as of when.
type level struct {
	at    time.Duration // when pool was last brought up to date
	limit float64       // the limit at that time, events/s; below 0 before the key begins
	pool  float64       // tokens that no host holds; negative is debt
	past  *past.Past    // limits and intervals that hosts may still go by; nil if none has changed recently
}

// begun reports whether the key has a pool.
func (l *level) begun() bool { return l.limit >= 0 }

// changed is the key's past, which begins if there is none.
func (l *level) changed() *past.Past {
	if l.past == nil {
		l.past = past.New()
	}
	return l.past
}

// sums are of all rows. Rows hold whole grains (see package sum), so sums of less than
// 2²⁹ are exact. Larger ones are added up anew whenever all rows are looked at.
type sums struct {
	lent     float64   // tokens granted out of the pool, and not spent as far as the owner knows
	starters float64   // tokens granted beside the pool
	wants    float64   // demands, events/s
	parts    sum.Parts // the parts of the limit that are granted as rates
	users    int32     // hosts with a demand
	found    int32     // the row that was looked for last, or None
}

// rates is what hosts hold of limit as rates, in events/s.
func (s *sums) rates(limit float64) float64 { return s.parts.Value() * limit }

// mostLent is the part of the burst that is lent at a time, at most.
const mostLent = 0.75

// room is how much the pool can hold beside what is lent: more may be lent than
// mostLent when the burst has just become smaller.
func (s *sums) room(limit algorithm.Limit) float64 {
	return upper(limit.Burst-s.lent, (1-mostLent)*limit.Burst)
}

// drop removes row from all sums.
func (s *sums) drop(row *row) {
	out := row.out()
	s.lent -= float64(out)
	s.starters -= float64(row.unspent - out)
	s.parts.Sub(row.weight)
	s.unwant(row)
	row.lent, row.unspent, row.weight = 0, 0, 0
}

// hold notes what row's host was lent, and what it has left of that and of its starter.
func (s *sums) hold(row *row, lent, unspent float32) {
	s.lent -= float64(row.out())
	s.starters -= float64(row.starter())
	row.lent, row.unspent = lent, unspent
	s.lent += float64(row.out())
	s.starters += float64(row.starter())
}

// want notes that row's host wants so much.
func (s *sums) want(row *row, wants float64) {
	s.unwant(row)
	if row.wants = sum.Grains(wants); row.wants > 0 {
		s.wants += float64(row.wants)
		s.users++
	}
}

// unwant takes the demand of row's host out of the sums. While a host wants so much that the sum is not exact, the
// sum may lose what the others want. It is never less than nothing: else the rates of hosts would be.
func (s *sums) unwant(row *row) {
	if row.wants > 0 {
		s.wants = upper(s.wants-float64(row.wants), 0)
		s.users--
		row.wants = 0
		if s.users == 0 {
			s.wants = 0
		}
	}
}

// fade removes row from all sums, but for its starter: a silent host keeps that.
func (s *sums) fade(row *row) {
	starter := row.starter()
	s.drop(row)
	row.alone = 0
	s.hold(row, 0, starter)
}

// row is what one host holds. There may be millions, so some amounts are float32.
type row struct {
	last    time.Duration
	weight  float64 // the part of the limit that it has as a rate
	lent    float32 // tokens granted out of the pool since the last report
	unspent float32 // tokens that it has, as far as the owner knows; what exceeds lent is its starter
	wants   float32
	alone   uint16 // the part of the limit that it may use while it cannot ask, in 1/wholeLimit: see asked.rateAlone
	late    account.Late
	current bool // it has reported, or asked, under the algorithm that the key has now
}

// out is how many of the tokens that row's host was lent it has left, as far as the owner knows.
func (r *row) out() float32 {
	if r.unspent < r.lent {
		return r.unspent
	}
	return r.lent
}

// starter is how many tokens row's host was granted beside the pool.
func (r *row) starter() float32 { return r.unspent - r.out() }

// lower is min, and upper is max, but for what the builtin ones do about zeros of two signs and about NaN: that costs
// ten instructions, each of which waits for the one before. If a is NaN, so is the result.
func lower(a, b float64) float64 {
	if b < a {
		return b
	}
	return a
}

func upper(a, b float64) float64 {
	if b > a {
		return b
	}
	return a
}
