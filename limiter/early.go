// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Early reporting. Under an eager algorithm a host does not always wait for
// its interval: a key that runs low asks at once, and a key whose demand has
// changed says so. A key that nobody uses does not report at all.
//
//	a decision leaves few tokens ──▶ runsLow ──▶ urgent ─┐ coalesced some ms
//	every tick, for keys in use: has demand changed? ────┴──▶ Early ──▶ a Batch
//
// An ask that brings little is not repeated soon: the gap to the next triples,
// to beyond the interval, so that a saturated key reports no more than any other.
const (
	// tick is how often the demand of keys in use is looked at. It bounds
	// how long a change goes unnoticed.
	tick = 200 * time.Millisecond

	// Keys with less than slowDemand, in events/s, are looked at in one of
	// slowTicks: less than an event in each says little, and to look at a key
	// that was not used lately is to fetch it from memory.
	slowDemand = 5
	slowTicks  = 5

	// coalesce is how long an urgent key waits for company.
	coalesce = 2 * time.Millisecond

	// introduction is how long it takes until a new owner hears from a host.
	introduction = 200 * time.Millisecond

	// spacing is the least time between two early reports of a host.
	spacing = 5 * time.Millisecond

	// unrest is how long after a change of demand asks stay frequent.
	unrest = time.Second

	// shortestGap is the least time between two asks for a key.
	shortestGap = 10 * time.Millisecond

	// quietDemand is so little, in events/s, that a key without usage does
	// not report it again.
	quietDemand = 0.05

	// enoughQuiet is after how many seconds without usage a key is not
	// looked at any more.
	enoughQuiet = 2.0
)

// never is an Instant that does not come.
const never = Instant(math.MaxInt64)

// neverLow is the level that no bucket is below, and straggling the one that
// every bucket is below: whoever still decides by a share that is no key's any
// more puts it among those that have something to say.
const (
	neverLow   = math.MinInt64
	straggling = math.MaxInt64
)

// early is what a group knows of keys that report early.
type early struct {
	due atomic.Int64 // when Early has something to do; orders nothing else

	mu       sync.Mutex // protects following fields, and every share's pulse but askAt
	rand     *rand.Rand
	active   []*share            // in use: looked at in each tick
	slow     [slowTicks][]*share // in use, but little: looked at in turn
	turn     int                 // whose turn it is
	watched  int                 // how many are in those
	urgent   []*share
	urgentAt Instant
	tickAt   Instant
	last     Instant // the last early report
}

// WithEager names the algorithms under which keys report early.
func WithEager(algorithms ...string) Option {
	return func(g *Group) {
		for _, name := range algorithms {
			g.eager[name] = true
		}
	}
}

// WithSeed makes the group's jitter repeatable. By default it is random.
func WithSeed(seed uint64) Option {
	return func(g *Group) { g.early.rand = rand.New(rand.NewPCG(seed, seed)) }
}

// NextEarly is when Early has something to do; it may be in the past, and far
// in the future when nothing is expected. It may become earlier whenever a
// limiter is used.
func (g *Group) NextEarly() Instant { return Instant(g.early.due.Load()) }

// begin makes s watch its demand from now on, if its algorithm is eager.
func (g *Group) begin(now Instant, s *share) {
	s.eager, s.wanting = g.eager[s.algorithm] && s.slots == nil, g.wanting[s.algorithm]
	if s.group == nil && s.prompt() {
		s.pulse.gap, s.group = shortestGap, g
	}
	if !s.eager {
		s.low.Store(neverLow)
		return
	}
	g.early.mu.Lock()
	defer g.early.mu.Unlock()

	// The first report may wait, unless what there is without a grant runs low.
	s.pulse.askAt.Store(int64(now))
	s.low.Store(s.bucket.quanta(s.bucket.tokens(now) / 2))
	g.activateLocked(now, s)
}

// Introduce has every key that reports early do so soon after now: the ring has
// changed, and new owners have to learn what their hosts hold.
func (g *Group) Introduce(now Instant) {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.mergeLocked()
	g.early.mu.Lock()
	defer g.early.mu.Unlock()

	for _, k := range g.live {
		for _, s := range k.core.shares {
			if s.eager && s.pulse.demand.told > quietDemand || s.slots != nil && s.slots.census().busy() {
				g.urgeLocked(now, s, introduction)
			}
		}
	}
}

// retry has s ask again before long: its decider is not ready to answer.
func (g *Group) retry(now Instant, s *share) {
	g.early.mu.Lock()
	defer g.early.mu.Unlock()

	g.urgeLocked(now, s, introduction)
}

// end stops watching s, which is no key's any more.
func (g *Group) end(s *share) {
	if s.slots != nil {
		s.slots.close()
	}
	if s.group == nil {
		s.group = g
		return
	}
	g.early.mu.Lock()
	defer g.early.mu.Unlock()

	s.pulse.gone = true
}

// straggles has s, which is no key's, heard once more.
func (g *Group) straggles(s *share) {
	g.freshMu.Lock()
	defer g.freshMu.Unlock()

	g.stragglers = append(g.stragglers, s)
}

// urgeLocked has s reported after wait.
func (g *Group) urgeLocked(now Instant, s *share, wait time.Duration) {
	if s.pulse.urgent {
		return
	}
	s.pulse.urgent = true
	at := max(now.Add(g.early.jitter(wait)), g.early.last.Add(spacing))
	if len(g.early.urgent) == 0 || at < g.early.urgentAt {
		g.early.urgentAt = at
	}
	g.early.urgent = append(g.early.urgent, s)
	g.dueLocked()
}

// salt is a number by chance.
func (e *early) salt() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()

	return e.rand.Uint64()
}

// jitter is between half and one and a half times d.
func (e *early) jitter(d time.Duration) time.Duration {
	return d/2 + time.Duration(e.rand.Int64N(int64(d)+1))
}

func (g *Group) dueLocked() {
	due := never
	if g.early.watched > 0 {
		due = g.early.tickAt
	}
	if len(g.early.urgent) > 0 {
		due = min(due, g.early.urgentAt)
	}
	g.early.due.Store(int64(due))
	select {
	case g.wake <- struct{}{}:
	default: // awake already
	}
}

// runsLow is called by a decision that found few tokens. It is cheap unless
// an ask is due.
func (s *share) runsLow(now Instant) {
	if s.low.Load() == straggling {
		if s.low.CompareAndSwap(straggling, neverLow) {
			s.group.straggles(s)
		}
		return
	}
	p := &s.pulse
	if int64(now) < p.askAt.Load() {
		return
	}
	g := s.group
	if !g.early.mu.TryLock() {
		return // decisions wait for nobody: the next one asks
	}
	defer g.early.mu.Unlock()

	p.askAt.Store(int64(now.Add(coalesce * 2)))
	g.activateLocked(now, s)
	g.urgeLocked(now, s, coalesce)
}

// Early reports what cannot wait at now: keys that run low or whose demand
// has changed. It returns nothing when it is called too soon. Like Report,
// its batches go to Apply, or to Fail.
func (g *Group) Early(now Instant) []*Batch {
	if now < g.NextEarly() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()

	batches := g.batchesLocked(now, true, nil)
	for _, s := range g.urgentAt(now) {
		if s.prompt() && now >= s.waiting {
			s.report(now, batches)
		}
	}
	return batches.sorted()
}

// urgentAt takes what is to be reported at now.
func (g *Group) urgentAt(now Instant) []*share {
	e := &g.early
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.watched > 0 && now >= e.tickAt {
		g.tickLocked(now)
	}
	var urgent []*share
	if len(e.urgent) > 0 && now >= e.urgentAt {
		for _, s := range e.urgent {
			s.pulse.urgent = false
			if !s.pulse.gone {
				urgent = append(urgent, s)
			}
		}
		clear(e.urgent)
		e.urgent, e.last = e.urgent[:0], now
	}
	g.dueLocked()
	return urgent
}

// effect is what a decider's answer brought a share.
type effect struct {
	share  *share
	asked  bool       // because it ran low
	before rate.Limit // that it applied
	gained float64    // tokens
}

// hear takes in effects and returns room for more of them.
func (g *Group) hear(now Instant, effects []effect) []effect {
	if len(effects) == 0 {
		return effects
	}
	g.early.mu.Lock()
	defer g.early.mu.Unlock()

	for i := range effects {
		g.hearLocked(now, &effects[i])
	}
	return effects[:0]
}

// hearLocked sets when to ask again. The gap to the next ask grows as long as
// asking brings little.
func (g *Group) hearLocked(now Instant, a *effect) {
	s, p := a.share, &a.share.pulse
	if p.gone {
		return
	}
	g.activateLocked(now, s)
	told := p.demand.told
	switch {
	case !a.asked:
	case a.gained >= max(told/50, 0.9) || float64(s.applied.limit-a.before) > max(told/5, 1):
		p.gap = max(p.gap/4, shortestGap)
	case now.Sub(p.changed) < unrest:
		p.gap = min(3*p.gap, tick/2)
	default:
		p.gap = min(3*p.gap, g.interval()*3/2)
	}
	p.askAt.Store(int64(now.Add(p.gap)))
	// Ask again with a fifth left, or two tokens of few, or not a whole one.
	tokens := s.bucket.tokens(now)
	cost := p.demand.unit()
	low := min(tokens-cost/2, 2*cost)
	if tokens/5 > low {
		low = tokens / 5
	}
	if cost > low {
		low = cost
	}
	if low := s.bucket.quanta(low); low != s.low.Load() {
		s.low.Store(low)
	}
}

// interval is the update interval.
func (g *Group) interval() time.Duration { return time.Duration(g.intervalNow.Load()) }
