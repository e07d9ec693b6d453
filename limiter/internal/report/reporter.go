// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/limiter/internal/alarms"
	"github.com/headgate/headgate/limiter/internal/lanes"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Reporter makes reports of Subjects and takes in the answers. Use New.
type Reporter struct {
	early   early
	retired retired
	reuse   map[string]*Batch // whose memory the next round takes, by algorithm
	next    stage.Instant     // when the next regular round is expected

	timeout         func() time.Duration
	fallbackChanged func(now stage.Instant, part *share.Base, entered bool)
	successor       func(key, algorithm string) *Subject
}

// Config is what a Reporter must know of its Group.
type Config struct {
	// Interval and Timeout are the update interval, and how long an owner may
	// take to answer. They may change.
	Interval, Timeout func() time.Duration

	// FallbackChanged is called when a part has entered or left its fallback.
	FallbackChanged func(now stage.Instant, part *share.Base, entered bool)

	// Successor finds the Subject that a key has now under an algorithm; nil if there is
	// none. It is safe for concurrent use.
	Successor func(key, algorithm string) *Subject

	// Placement says who owns which key: early reports to one owner share messages.
	// If it is nil, all keys count as one owner's.
	Placement rpc.Placement

	// Rand spreads reports in time.
	Rand *rand.Rand
}

// New returns a Reporter.
func New(c Config) *Reporter {
	r := &Reporter{timeout: c.Timeout, fallbackChanged: c.FallbackChanged, successor: c.Successor, reuse: make(map[string]*Batch)}
	r.early.interval, r.early.rand, r.early.wake = c.Interval, c.Rand, make(chan struct{}, 1)
	r.early.owner, r.early.lanes = c.Placement, lanes.New[*Subject]()
	r.early.due.Store(int64(lanes.Never))
	r.early.ends = alarms.New[*Subject]()
	r.next, r.retired.returned = lanes.Never, make(map[string]*Subject)
	return r
}

// Salt returns a random number. Safe for concurrent use.
func (r *Reporter) Salt() uint64 {
	r.early.mu.Lock()
	defer r.early.mu.Unlock()

	return r.early.rand.Uint64()
}

// Interval is the update interval in force. Safe for concurrent use.
func (r *Reporter) Interval() time.Duration { return r.early.interval() }

// Timeout is how long an owner may take to answer. Safe for concurrent use.
func (r *Reporter) Timeout() time.Duration { return r.timeout() }

// Due is when Early has something to report: in the past, or lanes.Never. It may
// become earlier whenever a limiter is used. Safe for concurrent use.
func (r *Reporter) Due() stage.Instant { return stage.Instant(r.early.due.Load()) }

// Wake receives when Due or the interval may have changed.
func (r *Reporter) Wake() <-chan struct{} { return r.early.wake }

// Reconfigured notifies the Loop that the interval may have changed. Safe for
// concurrent use.
func (r *Reporter) Reconfigured() { r.early.wakeLoop() }

// Begin begins a regular round at now. Subjects that wait for an early report are the
// first in it, then those that are retired.
func (r *Reporter) Begin(now stage.Instant, hosts int) *Round {
	round := r.round(now, false)
	r.next = now.Add(r.Interval())
	r.endLeases(now, hosts)
	for _, s := range r.early.ready(now, true) {
		if !s.Early() { // slots are visited in any case
			continue
		}
		r.refresh(now, s, hosts)
		if s.worthReporting(now) {
			round.add(s)
		}
	}
	r.retired.report(now, round)
	return round
}

func (r *Reporter) round(now stage.Instant, early bool) *Round {
	return &Round{
		reporter: r, byAlgorithm: make(map[string]*Batch), at: now,
		answered: now.Add(r.timeout()), recent: r.early.interval() * 2 / 3, early: early,
	}
}

// refresh puts the fallback in force if the lease of s has ended, so that a report is about the tokens
// that decide.
func (r *Reporter) refresh(now stage.Instant, s *Subject, hosts int) {
	if s.Stale(now) {
		r.SteerAndNotify(now, s, func() { s.Part().Steer(now, hosts) })
	}
}

// SteerAndNotify calls steer, which steers s. If that ends a lease or puts a grant in force, it reports that
// the key has entered or left its fallback.
func (r *Reporter) SteerAndNotify(now stage.Instant, s *Subject, steer func()) {
	stale, part := s.Stale(now), s.Part()
	_, before := part.InFallback()
	steer()
	if _, inFallback := part.InFallback(); stale && inFallback != before && s.Part() == part { // under auto, the host asks before it falls back
		r.fallbackChanged(now, s.Common(), inFallback)
	}
}

// watchLease has Early end the lease of s if that is before the next regular round. It is for
// algorithms that state wants, whose owners lease to others what was leased here as soon as
// the lease has ended.
func (r *Reporter) watchLease(now stage.Instant, s *Subject) {
	c := s.Common()
	if until := c.Until(); until < r.next && c.Valid(now) {
		r.early.endAt(s, until)
	}
}

// endLeases puts the fallback in force where a lease has ended.
func (r *Reporter) endLeases(now stage.Instant, hosts int) {
	for _, s := range r.early.ended(now) {
		r.refresh(now, s, hosts)
	}
}

// Early reports what cannot wait at now.
func (r *Reporter) Early(now stage.Instant, hosts int) []*Batch {
	r.endLeases(now, hosts)
	round := r.round(now, true)
	for _, s := range r.early.ready(now, false) {
		r.refresh(now, s, hosts)
		if s.worthReporting(now) {
			round.add(s)
		}
	}
	return round.Batches()
}

// Last has subjects use their fallbacks, and report what they give back: they want nothing.
func (r *Reporter) Last(now stage.Instant, hosts int, subjects []*Subject) []*Batch {
	round := r.round(now, false)
	round.final = true
	for _, s := range subjects {
		c := s.Common()
		if !c.Terms().Reports || !c.Given() {
			continue // it uses its fallback
		}
		s.Part().Forget(now, hosts)
		if c.Terms().Traits.Wants || s.Prompt() {
			c.State(0)
			round.add(s)
		}
	}
	return round.Batches()
}

// Introduce has s report soon after now if its owner should learn early what
// this host holds: the ring has changed.
func (r *Reporter) Introduce(now stage.Instant, s *Subject) {
	slots := s.Slots()
	r.early.mu.Lock()
	defer r.early.mu.Unlock()

	if s.Early() && s.pulse.demand.Reported() > quietDemand || slots != nil && slots.Census().Busy() {
		r.early.reportSoonLocked(now, s, introduceAfter)
	}
}

// Done says that no more answers to b will come, and that its Usage is not used any
// more: the next round may use its memory, unless that was for many more rows.
func (r *Reporter) Done(b *Batch) {
	if !b.early && b.rows != nil && cap(b.rows) <= 8*len(b.rows) {
		r.reuse[b.Usage.Algorithm] = &Batch{room: b.room, rows: b.rows[:0]}
	}
	*b = Batch{Usage: usage.Report{Algorithm: b.Usage.Algorithm}}
}

// rowsOf is how many rows an answer is about: those of rows, or all of b.
func (b *Batch) rowsOf(rows []int) int {
	if rows == nil {
		return len(b.rows)
	}
	return len(rows)
}

// maxRefused is how often a report is repeated that was answered without a grant,
// unless there is an event. A new owner answers after half a second.
const maxRefused = 4

// Apply takes in the grants for some rows of b: grant i is for row rows[i], or
// for row i if rows is nil. Grants that are against the contract are refused
// whole, with an error, and the keys go on as they were. A row that is never
// answered is reported again with the next Report.
func (r *Reporter) Apply(now stage.Instant, b *Batch, rows []int, grants *usage.Grants, hosts int) error {
	n := b.rowsOf(rows)
	if err := grants.Check(n); err != nil {
		return fmt.Errorf("limiter: apply: %w", err)
	}
	if b.rows == nil {
		return fmt.Errorf("limiter: apply %d grants: the batch is done", n)
	}
	effects := make([]effect, 0, together)
	weight, burst, used, lease := grants.Weight[:n], grants.Burst[:n], grants.Used[:n], grants.Lease[:n]
	for i := range n {
		at := i
		if rows != nil {
			at = rows[i]
			if i%ahead == 0 {
				b.prefetch(rows[i:min(i+ahead, n)])
			}
		}
		if len(effects) == together {
			effects = r.early.observe(now, effects)
		}
		row := &b.rows[at]
		s := row.subject
		if b.at > s.Acked.At {
			reported := s.Acked.Rejected
			s.Acked = b.upTo(row)
			s.Acked.Rejected = max(s.Acked.Rejected, reported) // what was reported as rejected, and was not, comes off later reports
			if row.beside < 0 {
				s.Acked.Allowed -= row.awaited()
			}
			s.pulse.ownerKnows = false
		}
		s.pending = now
		if row.beside > 0 && lease[i] > 0 { // else the owner may not know the rule yet
			share.AddUncharged(s.Rate, -row.charge(), 0)
		}
		if lease[i] == 0 && s.Prompt() && s.pulse.refused < maxRefused { // the owner is not ready to answer
			s.pulse.refused++
			r.early.reportSoon(now, s, introduceAfter)
		}
		c := s.Common()
		terms := c.Terms()
		until := now.Add(lease[i])
		if terms.Traits.Wants {
			// The owner leases to others what was leased here, from when its lease ends. That began
			// at some time after the report was made.
			until = b.at.Add(lease[i])
		}
		// An answer that was overtaken says nothing any more, nor does one that comes
		// when its lease has ended: the host was suspended.
		if lease[i] == 0 || terms.Name() != b.Usage.Algorithm || int32(row.number-s.answeredNo.Load()) <= 0 || now.Sub(b.at) >= lease[i] {
			continue
		}
		s.answeredNo.Store(row.number)
		_, inFallback := c.InFallback()
		back := inFallback && c.Given()
		if terms.Traits.Asks && !c.Granted() && s.Part().Asking() { // it was not new without a grant
			_, back = s.Part().InFallback()
		}
		g := share.Grant{
			Given: true, Floor: grants.Floor, Weight: weight[i], Burst: min(burst[i], terms.Rule.Burst),
			Used: used[i], Until: until,
		}
		c.SetGrant(g)
		if terms.Traits.Wants {
			r.watchLease(now, s)
		}
		switch {
		case s.Rate == nil:
			r.applySlots(now, s, hosts, b.early)
		case grants.Tokens == nil:
			s.Part().Steer(now, hosts)
		case row.number == s.reportNo.Load():
			more, before := grants.Tokens[i]-row.tokens, s.Rate.Active()
			if row.beside < 0 {
				more -= float64(row.awaited())
			}
			if math.IsInf(more, 0) { // nothing was limited when s reported
				more = grants.Tokens[i] - float64(max(s.Rate.Bucket().Allowed()-row.usage.Allowed, 0))
				if left := s.Part().Tokens(now); !math.IsInf(left, 0) {
					more -= left
				}
			}
			lender, _ := s.Part().(share.RatePart)
			left := lender.Lend(now, more, hosts)
			if s.Early() {
				effects = append(effects, effect{s, b.early, before, more, left})
			}
		}
		if back && !s.pulse.retired {
			if _, inFallback := s.Part().InFallback(); !inFallback { // else the grant is not in force
				r.fallbackChanged(now, c, false)
			}
		}
	}
	r.early.observe(now, effects)
	return nil
}

// applySlots puts a grant of slots in force, and asks again if they do not do for
// those who wait. The gap grows as long as asking brings nothing.
func (r *Reporter) applySlots(now stage.Instant, s *Subject, hosts int, asked bool) {
	slots := s.Slots()
	before := slots.Census()
	slots.Steer(now, hosts)
	after := slots.Census()

	r.early.mu.Lock()
	defer r.early.mu.Unlock()

	p := &s.pulse
	switch {
	case after.Size > before.Size:
		p.gap = shortestGap
	case asked || after.Starved:
		p.gap = min(3*p.gap, r.early.interval()*3/2)
	default:
		p.gap = max(p.gap/4, shortestGap)
	}
	p.askAt.Store(int64(now.Add(p.gap)))
	if after.Waiting > after.InVain && p.gap < r.early.interval() {
		r.early.reportSoonLocked(now, s, p.gap)
	}
}

// Fail says that rows of b, as in Apply, will not be answered. They are
// reported again with the next Report; keys that run low may report early.
func (r *Reporter) Fail(now stage.Instant, b *Batch, rows []int) {
	if b.rows == nil {
		return // it is done
	}
	for i := range b.rowsOf(rows) {
		at := i
		if rows != nil {
			at = rows[i]
		}
		if s := b.rows[at].subject; b.rows[at].number == s.reportNo.Load() {
			s.pending = now
			if s.Early() {
				r.early.observe(now, []effect{{s, true, s.Rate.Active(), 0, s.Rate.Bucket().Uncached(now)}})
			}
		}
	}
}
