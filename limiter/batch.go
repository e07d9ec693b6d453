// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/rpc"
)

// Batch is what a host reports at one time about its keys of one algorithm.
type Batch struct {
	// Usage goes to the deciders; row i is about Usage.Keys[i].
	Usage rpc.Usage

	rows   []row
	told   int // rows before it have their wants
	at     Instant
	early  bool
	costly bool // some event cost more than 1
}

// costMemory is how much of the largest cost is remembered at the next report.
const costMemory = 0.8

// row is where an answer goes, and what it settles.
type row struct {
	share             *share
	allowed, rejected int64   // ever, at the time of the report
	tokens            float64 // at that time
	ask               uint32  // which of the share's reports it is
}

// upTo is what row i settles.
func (b *Batch) upTo(i int) counts { return counts{b.rows[i].allowed, b.rows[i].rejected, b.at} }

// batches collects rows by algorithm.
type batches struct {
	group       *Group
	byAlgorithm map[string]*Batch
	last        *Batch // the one that was added to
	at          Instant
	timeout     time.Duration
	early       bool
	sizes       map[string]int // how many rows to make room for; may be nil
}

// batchesLocked are for a report at now.
func (g *Group) batchesLocked(now Instant, early bool, sizes map[string]int) *batches {
	return &batches{
		group: g, byAlgorithm: make(map[string]*Batch), at: now,
		timeout: g.properties().UpdateTimeout, early: early, sizes: sizes,
	}
}

// of is the batch of an algorithm.
func (b *batches) of(algorithm string, costs bool) *Batch {
	if b.last != nil && b.last.Usage.Algorithm == algorithm {
		return b.last
	}
	if b.last = b.byAlgorithm[algorithm]; b.last != nil {
		return b.last
	}
	n := b.sizes[algorithm]
	n += n / 16
	batch := &Batch{at: b.at, early: b.early, rows: make([]row, 0, n)}
	u := &batch.Usage
	u.Algorithm, u.Keys = algorithm, make([]string, 0, n)
	u.Allowed, u.Rejected = make([]int64, 0, n), make([]int64, 0, n)
	u.Elapsed, u.Weight = make([]time.Duration, 0, n), make([]float64, 0, n)
	if costs {
		u.Wants, u.Cost = make([]float64, 0, n), make([]float64, 0, n)
	}
	b.byAlgorithm[algorithm], b.last = batch, batch
	return batch
}

// sorted are the batches, ordered by name.
func (b *batches) sorted() []*Batch {
	all := make([]*Batch, 0, len(b.byAlgorithm))
	for _, batch := range b.byAlgorithm {
		b.tell(batch)
		if !batch.costly {
			batch.Usage.Cost = nil
		}
		all = append(all, batch)
	}
	slices.SortFunc(all, func(a, b *Batch) int { return strings.Compare(a.Usage.Algorithm, b.Usage.Algorithm) })
	return all
}

// report adds s to the batch of its algorithm.
func (s *share) report(now Instant, batches *batches) {
	upTo := s.count(now)
	if upTo.allowed+upTo.rejected != s.seen {
		s.seen, s.used = upTo.allowed+upTo.rejected, now
	}
	allowed, rejected, elapsed := upTo.since(s.reported)
	if !s.remote || elapsed <= 0 {
		return
	}
	b := batches.of(s.algorithm, s.eager || s.slots != nil && s.group.eager[s.algorithm])
	weight := 0.0
	switch {
	case s.slots != nil:
		weight = s.hasSlots()
	case s.granted:
		weight = s.grant.weight
	}
	u := &b.Usage
	u.Keys = append(u.Keys, s.key)
	u.Allowed = append(u.Allowed, min(allowed, rpc.MaxCount))
	u.Rejected = append(u.Rejected, min(rejected, rpc.MaxCount))
	u.Elapsed = append(u.Elapsed, min(elapsed, rpc.MaxElapsed))
	u.Weight = append(u.Weight, weight)
	s.waiting = now.Add(batches.timeout)
	if s.eager {
		s.cost = max(float64(s.largest.Swap(0)), s.cost*costMemory, 1)
		u.Cost = append(u.Cost, s.cost)
		b.costly = b.costly || s.cost > 1
		u.Wants = append(u.Wants, 0) // until tell
	} else if s.wanting || u.Wants != nil || s.slots != nil || s.states() {
		b.tellWants(s.mind(now, allowed+rejected, elapsed))
	}
	s.asks++
	b.rows = append(b.rows, row{s, upTo.allowed, upTo.rejected, s.bucket.tokens(now), s.asks})
	if len(b.rows)-b.told >= together {
		batches.tell(b)
	}
}

// together is how many keys' demand is looked at under one lock: to take it
// for each costs more than what it guards.
const together = 64

// tell fills in what the hosts of the newest rows of batch want, as far as
// their demand is watched.
func (b *batches) tell(batch *Batch) {
	u := &batch.Usage
	b.group.early.mu.Lock()
	defer b.group.early.mu.Unlock()

	for i := batch.told; i < len(batch.rows); i++ {
		if s := batch.rows[i].share; s.eager {
			u.Wants[i] = s.wantsLocked(batch.upTo(i), u.Allowed[i]+u.Rejected[i], u.Elapsed[i])
		}
	}
	batch.told = len(batch.rows)
}
