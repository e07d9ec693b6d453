// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter/internal/alarms"
	"github.com/headgate/headgate/limiter/internal/demand"
	"github.com/headgate/headgate/limiter/internal/lanes"
	"github.com/headgate/headgate/limiter/internal/ledger"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

const (
	// coalesce is how long an urgent key waits for others that join its report.
	coalesce = 2 * time.Millisecond

	// introduceAfter is how soon a host reports to a new owner.
	introduceAfter = 200 * time.Millisecond

	// frequentFor is how long after a change of demand early reports stay frequent.
	frequentFor = time.Second

	// shortestGap is the least time between two early reports of a key.
	shortestGap = 10 * time.Millisecond

	// busyDemand is the demand, in events/s, above which a host that may ask reports early.
	busyDemand = 10

	// largeBurstEvents is how many events a large burst has at least.
	largeBurstEvents = 100

	// quietDemand is so little, in events/s, that a key without usage does
	// not report it again.
	quietDemand = 0.05

	// shortestLook is the least time in seconds that a look at the demand of a key covers. The
	// first event after a silence begins a new average: so soon after it, that event alone
	// would look like a burst.
	shortestLook = 0.02

	// enoughQuiet is after how many seconds without usage a key is not
	// looked at any more.
	enoughQuiet = 2.0
)

// early schedules the Subjects that report before the interval is over.
//
//	a decision leaves few tokens ──▶ ranLow ─────────────┐ some ms, and lanes
//	every look at a key in use: has its demand changed? ─┴──▶ due ──▶ a Batch
//
// When an early report brings little, the gap to the next triples, to beyond
// the interval, so that a saturated key reports no more than any other. Its
// own lock is short, because decisions try it; the Group's is taken before it.
type early struct {
	due      atomic.Int64 // when there is something to do; orders nothing else
	wake     chan struct{}
	interval func() time.Duration

	mu    sync.Mutex // protects following fields, and every Subject's pulse but askAt
	rand  *rand.Rand
	watch watch
	owner rpc.Placement // of keys; nil: all have one
	lanes lanes.Lanes[*Subject]
	ends  alarms.Alarms[*Subject] // of leases
}

// jitter returns between half and one and a half times d.
func (e *early) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(e.rand.Int64N(int64(d)+1))
}

// pulse has f read or change the pulse of s.
func (e *early) pulse(s *Subject, f func(*pulse)) {
	e.mu.Lock()
	defer e.mu.Unlock()

	f(&s.pulse)
}

// reportSoon has s reported after wait.
func (e *early) reportSoon(now stage.Instant, s *Subject, wait time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.reportSoonLocked(now, s, wait)
}

func (e *early) reportSoonLocked(now stage.Instant, s *Subject, wait time.Duration) {
	if s.pulse.retired || !e.worthwhileLocked(now, s) {
		return
	}
	owner, waits := "", s.pulse.waits
	if e.owner != nil {
		owner = e.owner.Owner(s.Common().Key())
	}
	s.pulse.waits = true
	if e.lanes.Add(owner, s, now.Add(e.jitter(wait)), waits) {
		e.scheduleLocked()
	}
}

// worthwhileLocked reports whether an early report of s is worth its message. A host
// that asks for what it lacks reports early only if it has many events: so that its
// next tokens are there before it would ask for them, and those that it does not need
// any more are given back. While it has no grant, it is lent nothing, and a few events in
// quick succession are many.
func (e *early) worthwhileLocked(now stage.Instant, s *Subject) bool {
	if !s.Asks() { // decisions come here: they do not look at the part
		return true
	}
	d := &s.pulse.demand
	n, elapsed := s.pulse.since(s.Count(now))
	if s.pulse.ungranted && s.pulse.largeBurst(s.Terms().Rule.Burst) {
		n = max(n, d.Latest(n, elapsed))
	}
	return max(d.Reported(), d.Recent(), n) >= busyDemand*d.Unit()
}

// scheduleLocked sets due and wakes the Loop.
func (e *early) scheduleLocked() {
	e.due.Store(int64(min(e.lanes.Due(), e.watch.due(), e.ends.Due())))
	e.wakeLoop()
}

// endAt has the lease of s ended at at.
func (e *early) endAt(s *Subject, at stage.Instant) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.ends.Add(s, at) {
		e.scheduleLocked()
	}
}

// ended takes the Subjects whose lease has ended, unless there was another since.
func (e *early) ended(now stage.Instant) []*Subject {
	e.mu.Lock()
	defer e.mu.Unlock()

	return slices.DeleteFunc(e.ends.Take(now), func(s *Subject) bool { return s.pulse.retired })
}

// wakeLoop has the Loop look again how long it may sleep.
func (e *early) wakeLoop() {
	select {
	case e.wake <- struct{}{}:
	default: // it is awake already
	}
}

// ranLow has s reported soon. A decision does not wait for the lock: if another
// caller has it, the next decision tries again.
func (e *early) ranLow(now stage.Instant, s *Subject, ungranted bool) {
	if !e.mu.TryLock() {
		return
	}
	defer e.mu.Unlock()

	s.pulse.ungranted = ungranted
	s.pulse.askAt.Store(int64(now.Add(coalesce * 2)))
	e.activateLocked(now, s)
	if s.Asks() {
		e.watch.sooner(now, s, s.pulse.demand.Latest(s.pulse.since(s.Count(now))))
	}
	e.reportSoonLocked(now, s, coalesce)
}

// slotsShort has s, which is slots, reported soon, unless that brought nothing
// recently: then once it is time again, if a caller waits, and with the regular
// report after several reports in vain.
func (e *early) slotsShort(now stage.Instant, s *Subject, waits bool) {
	due := stage.Instant(s.pulse.askAt.Load())
	switch {
	case waits:
		e.mu.Lock()
	case now < due || !e.mu.TryLock():
		return
	}
	defer e.mu.Unlock()

	if s.pulse.gap < e.interval() {
		e.reportSoonLocked(now, s, max(due.Sub(now), coalesce))
	}
}

// activateLocked has the demand of s watched.
func (e *early) activateLocked(now stage.Instant, s *Subject) {
	p := &s.pulse
	if p.class != demand.None {
		return
	}
	p.look(s.Count(now))
	p.demand.Resume()
	if e.watch.n == 0 {
		e.watch.tickAt = now.Add(e.jitter(tick))
	}
	e.watch.add(now, s)
	e.scheduleLocked()
}

// turnLocked looks at the demand of the keys whose turn it is.
func (e *early) turnLocked(now stage.Instant) {
	w := &e.watch
	e.lookLocked(now, &w.fast, demand.Quick)
	w.turnAt = now.Add(turn)
	if now >= w.tickAt {
		e.lookLocked(now, &w.rest, demand.Usual)
		due := &w.slow[w.next]
		w.next = (w.next + 1) % slowTicks
		e.lookLocked(now, due, demand.Slow)
		w.tickAt = now.Add(tick)
	}
}

// lookLocked looks at the demand of subjects, which are of class c. Those that are of
// another from now on go to its list.
func (e *early) lookLocked(now stage.Instant, subjects *[]*Subject, c demand.Class) {
	all := *subjects
	stay := all[:0]
	for i, s := range all {
		if i%ahead == 0 {
			prefetch(all[i:min(i+ahead, len(all))])
		}
		p := &s.pulse
		switch {
		case p.class != c:
			p.lingers = demand.None
			continue
		case p.retired:
			e.watch.n--
			continue
		}
		seen := s.Count(now)
		if n, elapsed := p.since(seen); elapsed >= shortestLook {
			p.look(seen)
			_, stated := s.Common().Stated()
			if p.demand.Tick(n, elapsed) && !stated {
				if !s.Asks() { // else it asks, and need not report again so soon
					p.shortenGap(now)
				}
				e.reportSoonLocked(now, s, 0)
			}
		}
		class := p.demand.Class(s.Asks())
		switch idle := p.demand.Quiet() > enoughQuiet && p.demand.Reported() < 1; {
		case !idle && class == c:
			stay = append(stay, s)
		case p.lingers != demand.None && (idle || class >= p.lingers):
			p.class, p.lingers = p.lingers, demand.None
		case idle:
			p.class = demand.None
			e.watch.n--
		default:
			e.watch.put(now, s, class)
		}
	}
	clear(all[len(stay):])
	*subjects = stay
}

// since is the cost that was asked for since the last look, and how many
// seconds ago that was.
func (p *pulse) since(now ledger.Reading) (n, elapsed float64) {
	return float64(max(now.Total()-p.total, 0)), max(now.At.Sub(p.looked), 0).Seconds()
}

// look notes the counters.
func (p *pulse) look(now ledger.Reading) { p.total, p.looked = now.Total(), now.At }

// shortenGap makes early reports frequent again: what was in vain before may
// help now, or soon, when others have given back what they hold.
func (p *pulse) shortenGap(now stage.Instant) { p.gap, p.changed = shortestGap, now }

// ready takes what is to be reported at now: all that waits, if a regular report
// takes it along.
func (e *early) ready(now stage.Instant, all bool) []*Subject {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.watch.tickAt = min(e.watch.tickAt, now.Add(2*tick)) // the first caller may have stated a time to come
	if now >= e.watch.due() {
		e.turnLocked(now)
	}
	defer e.scheduleLocked()
	return e.lanes.Take(now, all, e.interval(), func(s *Subject) bool {
		s.pulse.waits = false
		return !s.pulse.retired && s.Prompt() && now >= s.pending // else the answer says what is next
	})
}

// effect is what an owner's answer brought a Subject.
type effect struct {
	subject *Subject
	asked   bool        // it had reported early
	before  share.Level // that was in force
	gained  float64     // tokens
	left    float64     // tokens after that
}

// observe takes in effects and returns room for more of them.
func (e *early) observe(now stage.Instant, effects []effect) []effect {
	if len(effects) == 0 {
		return effects
	}
	e.mu.Lock()
	defer e.mu.Unlock()

	for i := range effects {
		e.observeLocked(now, &effects[i])
	}
	return effects[:0]
}

// observeLocked sets when to report early again. The gap to the next report
// grows as long as reporting brings little.
func (e *early) observeLocked(now stage.Instant, a *effect) {
	s, p := a.subject, &a.subject.pulse
	if p.retired {
		return
	}
	e.activateLocked(now, s)
	reported := p.demand.Reported()
	if s.Asks() {
		e.watch.sooner(now, s, reported)
	}
	switch {
	case !a.asked:
	case a.gained >= max(reported/50, 0.9) || float64(s.Rate.Active().Limit-a.before.Limit) > max(reported/5, 1):
		p.gap = max(p.gap/4, shortestGap)
	case now.Sub(p.changed) < frequentFor && !s.Asks():
		p.gap = min(3*p.gap, tick/2)
	default:
		p.gap = min(3*p.gap, e.interval()*3/2)
	}
	wait := p.gap
	if lost := float64(a.before.Limit - s.Rate.Active().Limit); lost > max(float64(a.before.Limit)/8, 1) && !s.Asks() {
		// Others may want more for a moment only.
		wait = min(wait, tick)
	}
	p.askAt.Store(int64(now.Add(wait)))
	// Report again with a fifth left, or two tokens of few, or not a whole one.
	cost := p.demand.Unit()
	s.Rate.Bucket().SetLow(max(min(a.left-cost/2, 2*cost), a.left/5, cost))
}

// ahead is how many Subjects are prefetched at once. Subjects lie in memory in any
// order, so each costs a cache miss. Work on one Subject is too long for the
// processor to begin to load the next meanwhile. A loop that only reads lets the
// processor load many at once.
const ahead = 32

// prefetch reads from subjects. The result keeps the compiler from leaving that out.
//
//go:noinline
func prefetch(subjects []*Subject) (sum int64) {
	for _, s := range subjects {
		sum += read(s)
	}
	return sum
}

// read reads from each cache line of s, and of its Rate.
func read(s *Subject) int64 {
	sum := int64(s.Acked.At) + s.pulse.askAt.Load() + int64(s.pulse.gap)
	if s.Rate != nil {
		sum += share.ReadLines(s.Rate)
	}
	return sum
}
