// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/limiter/internal/demand"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// Round is one report under way: a Batch per algorithm.
type Round struct {
	reporter    *Reporter
	byAlgorithm map[string]*Batch
	last        *Batch        // the one that was added to
	answered    stage.Instant // until when answers may come
	recent      time.Duration // Subjects that reported early within this time are left out
	at          stage.Instant
	early       bool
	final       bool // no report comes after this one
}

// Visit puts in force what should decide for s now, and adds s to the round,
// but for a Subject that reports early and has nothing to say.
func (r *Round) Visit(s *Subject, hosts int) {
	s.used = min(s.used, r.at) // the first caller may have stated a time to come
	if s.Stale(r.at) {
		r.reporter.refresh(r.at, s, hosts)
	} else if _, answered := s.Settled(); s.Rate != nil && (!answered || !s.Common().Granted()) {
		s.Rate.ChargeInactive(r.at) // else the answer does
	}
	if s.Rate != nil && share.HasBeside(s.Rate) {
		s.Tally(r.at) // also if callers gave back as much as they took, so that Count is what it was
	}
	if !s.Early() || s.regular(r.at, r.recent) {
		r.add(s)
	} else if s.Terms().Traits.Wants {
		r.reporter.watchLease(r.at, s)
	}
}

// Batches are what there is to send, ordered by algorithm.
func (r *Round) Batches() []*Batch {
	all := make([]*Batch, 0, len(r.byAlgorithm))
	for _, b := range r.byAlgorithm {
		r.fillWants(b)
		b.finish()
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b *Batch) int { return strings.Compare(a.Usage.Algorithm, b.Usage.Algorithm) })
	if !r.early {
		clear(r.reporter.reuse) // of algorithms that have nothing to say any more
	}
	return all
}

// batch is the Batch of an algorithm, and the last from now on. A regular round takes
// the memory of the one before.
func (r *Round) batch(algorithm string, costs bool) *Batch {
	b := r.byAlgorithm[algorithm]
	if b == nil {
		if b = r.reporter.reuse[algorithm]; b == nil || r.early {
			b = new(Batch)
		}
		b.Usage.Algorithm, b.at, b.early = algorithm, r.at, r.early
		b.room.Begin(costs)
		b.fit(max(4, cap(b.rows)))
		r.byAlgorithm[algorithm] = b
	}
	r.last = b
	return b
}

// costMemory is how much of the largest cost is remembered at the next report.
const costMemory = 0.8

// add adds s to the Batch of its algorithm.
func (r *Round) add(s *Subject) {
	now, c := r.at, s.Common()
	terms := c.Terms()
	if terms.Traits.Wants && !r.early {
		r.reporter.watchLease(now, s)
	}
	if s.Rate != nil {
		s.Rate.Bucket().Drop(now)
	}
	upTo := s.Count(now)
	if upTo.Usage != s.Seen {
		s.AddToRule(upTo.Usage)
		s.used = now
	}
	s.Acked.At = min(s.Acked.At, now) // the first caller may have stated a time to come
	allowed, rejected, elapsed := upTo.Since(s.Acked)
	if !terms.Reports || elapsed <= 0 {
		return
	}
	switch n := allowed + rejected; {
	case terms.Traits.Asks:
		if s.Part().Charging() {
			return
		}
		s.payForReport(n)
	case n > 0:
		s.pulse.refused, s.pulse.credit = 0, maxFollowUps
	}
	b := r.last
	if b == nil || terms.Measured || b.Usage.Algorithm != terms.Algorithm {
		b = r.batch(terms.Name(), terms.Traits.Early)
	}
	i, u := len(b.rows), &b.room
	if i == cap(b.rows) {
		b.grow()
	}
	u.Keys[i], u.Weight[i] = c.Key(), c.Has()
	u.Allowed[i], u.Rejected[i] = min(allowed, rpc.MaxCount), min(rejected, rpc.MaxCount)
	u.Elapsed[i] = min(elapsed, rpc.MaxElapsed)
	s.pending = r.answered
	tokens := 0.0
	if s.Rate != nil {
		tokens = s.Rate.Bucket().Tokens(now)
	}
	b.rows = b.rows[:i+1]
	b.rows[i] = row{subject: s, usage: upTo.Usage, tokens: tokens, number: s.reportNo.Add(1)}
	_, stated := c.Stated()
	switch {
	case s.Rate != nil && terms.Traits.Early:
		if share.HasBeside(s.Rate) {
			r.addBeside(&b.rows[i], &u.Allowed[i])
		}
		u.SetCost(i, largestCost(s))
		if i+1-b.filled >= together {
			r.fillWants(b)
		}
	case terms.Traits.Wants || u.Wanted() || s.Rate == nil || stated:
		u.SetWants(i, s.wants(now, allowed+rejected, elapsed))
		if s.Rate != nil && terms.Traits.Wants {
			cost := largestCost(s)
			if u.SetCost(i, cost); cost != s.pulse.demand.Cost {
				r.reporter.early.pulse(s, func(p *pulse) { p.demand.Cost = cost })
			}
		}
		if slots := s.Slots(); slots != nil {
			u.Weight[i] = slots.Has()
			u.SetSlots(i, slots.Occupied())
		}
	}
}

// largestCost is the largest cost that s was recently asked for at once.
func largestCost(s *Subject) float64 {
	now := min(float64(s.Rate.Bucket().TakeLargest()), s.Terms().Rule.Costliest()) // what costs more never happens
	return max(s.pulse.demand.Cost*costMemory, 1, now)
}

// addBeside has a row say what it has beside what its Subject allowed since the last report: see row.beside.
func (r *Round) addBeside(row *row, allowed *int64) {
	s := row.subject
	if n := s.Rate.Uncharged(); n > 0 {
		row.beside = int32(min(n, math.MaxInt32))
	} else if !r.final && !s.pulse.retired {
		row.beside = -int32(min(s.Rate.Awaited(row.tokens), *allowed, math.MaxInt32))
	}
	*allowed = min(*allowed+int64(row.beside), rpc.MaxCount)
}

// together is how many keys' demand is looked at under one lock: to take it
// for each costs more than what it guards.
const together = 64

// fillWants fills in what the host wants of the newest rows of b, as far as
// their demand is watched.
func (r *Round) fillWants(b *Batch) {
	if !b.room.Costs() {
		return
	}
	r.reporter.early.mu.Lock()
	defer r.reporter.early.mu.Unlock()

	for i := b.filled; i < len(b.rows); i++ {
		if b.rows[i].subject.Early() {
			b.room.Wants[i] = b.watchedWantsLocked(i)
		}
	}
	b.filled = len(b.rows)
}

// watchedWantsLocked is the demand of row i, whose Subject reports early.
func (b *Batch) watchedWantsLocked(i int) float64 {
	row, u := &b.rows[i], &b.room
	s, d := row.subject, &row.subject.pulse.demand
	n, sinceLook := s.pulse.since(b.upTo(row))
	wants, changed := d.Report(n, sinceLook, float64(u.Allowed[i]-row.charge()+u.Rejected[i]), u.Elapsed[i].Seconds(), u.CostOf(i))
	if changed && !s.Asks() {
		s.pulse.shortenGap(b.at)
	}
	if stated, ok := s.Common().Stated(); ok {
		return stated
	}
	return wants + demand.CatchUp(row.tokens)
}
