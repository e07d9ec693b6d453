// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"slices"
	"strings"

	"github.com/headgate/headgate/rpc"
)

// Batch is what a host reports at one time about its keys of one algorithm.
type Batch struct {
	// Usage goes to the deciders; row i is about Usage.Keys[i].
	Usage rpc.Usage

	room   rpc.Usage // columns as long as rows may be; Usage's are their beginning
	rows   []row
	told   int // rows before it have their wants
	at     Instant
	early  bool
	wants  bool // some row says what it wants
	costs  bool // rows say what their events cost
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

// batches collects rows by algorithm.
type batches struct {
	group       *Group
	byAlgorithm map[string]*Batch
	last        *Batch  // the one that was added to
	answered    Instant // until when answers may come
	at          Instant
	early       bool
	sizes       map[string]int // how many rows to make room for; may be nil
}

// batchesLocked are for a report at now.
func (g *Group) batchesLocked(now Instant, early bool, sizes map[string]int) *batches {
	return &batches{
		group: g, byAlgorithm: make(map[string]*Batch), at: now,
		answered: now.Add(g.properties().UpdateTimeout), early: early, sizes: sizes,
	}
}

// of is the batch of an algorithm, and the last from now on.
func (b *batches) of(algorithm string, costs bool) *Batch {
	if b.last = b.byAlgorithm[algorithm]; b.last != nil {
		return b.last
	}
	b.last = b.group.batchLocked(algorithm, b.sizes[algorithm], costs)
	b.last.at, b.last.early = b.at, b.early
	b.byAlgorithm[algorithm] = b.last
	return b.last
}

// batchLocked is an empty Batch with room for n rows and some more.
func (g *Group) batchLocked(algorithm string, n int, costs bool) *Batch {
	batch := new(Batch)
	if spare := g.spare[algorithm]; spare != nil && n > 0 && n <= cap(spare.rows) && cap(spare.rows) <= 8*n {
		delete(g.spare, algorithm)
		batch = spare
	}
	batch.Usage.Algorithm, batch.wants, batch.costs = algorithm, costs, costs
	batch.fit(max(n+n/16, 4, cap(batch.rows)))
	return batch
}

// Done says that b has been answered as far as it ever will be, and that nobody
// uses its Usage any more: the next Report may take its memory. Who does not
// say so leaves b to the garbage collector.
func (g *Group) Done(b *Batch) {
	g.mu.Lock()
	defer g.mu.Unlock()

	if !b.early && b.rows != nil {
		g.spare[b.Usage.Algorithm] = &Batch{room: b.room, rows: b.rows[:0]}
	}
	*b = Batch{Usage: rpc.Usage{Algorithm: b.Usage.Algorithm}}
}

// fit makes room for n rows.
func (b *Batch) fit(n int) {
	if cap(b.rows) < n {
		b.rows = append(make([]row, 0, n), b.rows...)
	}
	u := &b.room
	u.Keys = sized(u.Keys, n)
	u.Allowed, u.Rejected = sized(u.Allowed, n), sized(u.Rejected, n)
	u.Elapsed, u.Weight = sized(u.Elapsed, n), sized(u.Weight, n)
	if b.wants {
		u.Wants = sized(u.Wants, n)
	}
	if b.costs {
		u.Cost = sized(u.Cost, n)
	}
}

// sized is column with n rows at least.
func sized[E any](column []E, n int) []E {
	if len(column) >= n {
		return column
	}
	return append(make([]E, 0, n), column...)[:n]
}

// fill gives Usage its columns.
func (b *Batch) fill() {
	n, room := len(b.rows), &b.room
	// What another Batch left behind is kept no longer.
	clear(b.rows[n:cap(b.rows)])
	clear(room.Keys[n:])
	b.Usage = rpc.Usage{
		Algorithm: b.Usage.Algorithm,
		Keys:      room.Keys[:n], Allowed: room.Allowed[:n], Rejected: room.Rejected[:n],
		Elapsed: room.Elapsed[:n], Weight: room.Weight[:n],
	}
	if b.wants {
		b.Usage.Wants = room.Wants[:n]
	}
	if b.costly {
		b.Usage.Cost = room.Cost[:n]
	}
}

// sorted are the batches, ordered by name.
func (b *batches) sorted() []*Batch {
	all := make([]*Batch, 0, len(b.byAlgorithm))
	for _, batch := range b.byAlgorithm {
		b.tell(batch)
		batch.fill()
		all = append(all, batch)
	}
	slices.SortFunc(all, func(a, b *Batch) int { return strings.Compare(a.Usage.Algorithm, b.Usage.Algorithm) })
	return all
}

// report adds s to the batch of its algorithm.
func (s *share) report(now Instant, batches *batches) {
	upTo := s.count(now)
	if upTo.total() != s.seen {
		s.seen, s.used = upTo.total(), now
	}
	allowed, rejected, elapsed := upTo.since(s.reported)
	if !s.remote || elapsed <= 0 {
		return
	}
	b := batches.last
	if b == nil || b.Usage.Algorithm != s.algorithm {
		b = batches.of(s.algorithm, s.eager || s.slots != nil && s.group.eager[s.algorithm])
	}
	i, u := len(b.rows), &b.room
	if i == cap(b.rows) {
		b.fit(2 * i)
	}
	weight := 0.0
	switch {
	case s.slots != nil:
		weight = s.hasSlots()
	case s.granted:
		weight = s.grant.weight
	}
	u.Keys[i], u.Weight[i] = s.key, weight
	u.Allowed[i], u.Rejected[i] = min(allowed, rpc.MaxCount), min(rejected, rpc.MaxCount)
	u.Elapsed[i] = min(elapsed, rpc.MaxElapsed)
	s.waiting = batches.answered
	s.asks++
	b.rows = b.rows[:i+1]
	r := &b.rows[i]
	r.share, r.allowed, r.rejected, r.ask = s, upTo.allowed, upTo.rejected, s.asks
	r.tokens = s.bucket.tokens(now)
	switch {
	case s.eager:
		s.cost = max(s.cost*costMemory, 1)
		if largest := float64(s.takeLargest()); largest > s.cost {
			s.cost = largest
		}
		u.Cost[i] = s.cost
		if s.cost > 1 {
			b.costly = true
		}
		if i+1-b.told >= together {
			batches.tell(b)
		}
	case s.wanting || b.wants || s.slots != nil || s.states():
		b.tellWants(i, s.mind(now, allowed+rejected, elapsed))
	}
}

// takeLargest is the largest cost at once since the last time.
func (s *share) takeLargest() int64 {
	if s.largest.Load() == 0 {
		return 0 // a swap waits for everything before it
	}
	return s.largest.Swap(0)
}

// together is how many keys' demand is looked at under one lock: to take it
// for each costs more than what it guards.
const together = 64

// tell fills in what the hosts of the newest rows of batch want, as far as
// their demand is watched.
func (b *batches) tell(batch *Batch) {
	if !batch.costs {
		return
	}
	u := &batch.room
	b.group.early.mu.Lock()
	defer b.group.early.mu.Unlock()

	var sinceReport, sinceLook memo
	for i := batch.told; i < len(batch.rows); i++ {
		if r := &batch.rows[i]; r.share.eager {
			total, period := u.Allowed[i]+u.Rejected[i], sinceReport.secondsOf(u.Elapsed[i])
			u.Wants[i] = r.share.wantsLocked(batch.at, r, total, period, &sinceLook)
		}
	}
	batch.told = len(batch.rows)
}
