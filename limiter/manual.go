// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// Batch is what a host reports at one time about its keys of one algorithm.
type Batch = report.Batch

// Manual drives a Group by hand, on a clock of the caller's, instead of Run:
// for simulators and load tools. Services do not need it.
//
//	m := group.Manual()
//	for _, b := range m.Report(now) {
//		… // ask the owners about b.Usage
//		err := m.Apply(now, b, nil, grants)
//		m.Done(b)
//	}
//
// All methods are safe for concurrent use.
type Manual struct{ g *Group }

// Manual returns what drives g by hand.
func (g *Group) Manual() Manual { return Manual{g} }

// Configure is Group.Configure at now.
func (m Manual) Configure(now stage.Instant, snapshot *dynamicconfig.Snapshot) {
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()

	before := g.settings.Load().rules
	g.metrics.flushAll(before)
	before.before = nil
	set := &settings{rules: g.newRules(snapshot), hosts: g.settings.Load().hosts}
	set.rules.before = before
	g.settings.Store(set)
	g.table.Barrier() // what is being admitted under the old rules is in fresh now
	g.mergeLocked()
	g.forgetSleepersLocked(now, true)
	live := g.live[:0]
	for _, l := range g.live {
		st := l.state.Load()
		if st.rule.of == set.rules {
			live = append(live, l) // admitted under the new rules
			continue
		}
		if g.reshapeLocked(now, l, st, set) {
			live = append(live, l)
		}
	}
	clear(g.live[len(live):])
	g.live = live
}

// reshapeLocked puts l under the rules of set, and reports whether there is
// room for it.
func (g *Group) reshapeLocked(now stage.Instant, l *Limiter, st *state, set *settings) bool {
	rule := set.rules.match(l.key)
	if rule.keys.Add(1) > rule.most() && !rule.isCommon(l.key) {
		rule.keys.Add(-1)
		g.dropLocked(now, l)
		return false
	}
	var common *Limiter
	if rule.shared && !rule.isCommon(l.key) {
		common = g.For(rule.rule.Key)
		common.current(now)
		common = g.For(rule.rule.Key)
	}
	g.shape(now, l, st, set, rule, common)
	return true
}

// SetHosts is Group.SetHosts at now.
func (m Manual) SetHosts(now stage.Instant, hosts int) {
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()

	old := g.settings.Load()
	if hosts = max(hosts, 1); hosts == old.hosts {
		return
	}
	g.settings.Store(&settings{rules: old.rules, hosts: hosts})
	g.table.Barrier() // what is being admitted for the old hosts is in fresh now
	g.mergeLocked()
	for _, l := range g.live {
		for _, p := range l.state.Load().parts() {
			p.Part().Steer(now, hosts)
		}
	}
}

// Introduce is Group.Introduce at now.
func (m Manual) Introduce(now stage.Instant) {
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()

	g.mergeLocked()
	for _, l := range g.live {
		for _, p := range l.state.Load().parts() {
			g.reporter.Introduce(now, p)
		}
	}
}

// restful is how many intervals a key must be unused before it sleeps.
const restful = 2

// Report gathers what was used since the last report that was answered, and
// does what time alone brings about: leases end, idle keys leave. It returns a
// Batch per algorithm, ordered by name.
func (m Manual) Report(now stage.Instant) []*Batch {
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()

	g.mergeLocked()
	g.forgetSleepersLocked(now, false)
	g.owing.flush(now)
	hosts, unused := g.settings.Load().hosts, restful*g.Interval()
	round := g.reporter.Begin(now, g.successor)
	live, fallbacks := 0, 0
	for at, l := range g.live {
		st := l.state.Load()
		if len(st.parts()) == 1 && now.Sub(st.pair[0].Used()) >= unused && g.sleepLocked(now, l, st) {
			continue
		}
		for _, p := range st.parts() {
			if round.Visit(p, hosts) {
				g.fell(now, p)
			}
			if p.Part().Fallen() {
				fallbacks++
			}
		}
		st.flush(now)
		g.metrics.diverged(st)
		if st = l.state.Load(); g.idle(now, st) {
			g.dropLocked(now, l)
			continue
		}
		if live != at {
			g.live[live] = l
		}
		live++
	}
	clear(g.live[live:])
	g.live = report.Fitted(g.live[:live])
	g.metrics.report(live+len(g.sleepers), fallbacks)
	batches := round.Batches()
	g.metrics.flushAll(g.settings.Load().rules)
	return batches
}

// successor is the Subject that the key has now under an algorithm.
func (g *Group) successor(key, algorithm string) *report.Subject {
	l := g.table.Get(key)
	if l == nil {
		return nil
	}
	if st := l.state.Load(); st.live() {
		if p := st.find(algorithm); p != nil {
			return p
		}
	}
	return nil
}

// NextEarly is when Early has something to do; it may be in the past, and far
// in the future when nothing is expected. It may become earlier whenever a
// limiter is used.
func (m Manual) NextEarly() stage.Instant { return m.g.reporter.Due() }

// Early reports what cannot wait at now: keys that run low or whose demand
// has changed. It returns nothing when it is called too soon. Like Report,
// its batches go to Apply, or to Fail.
func (m Manual) Early(now stage.Instant) []*Batch {
	if now < m.NextEarly() {
		return nil
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()

	return m.g.reporter.Early(now)
}

// Apply takes in the grants for some rows of b: grant i is for row rows[i],
// or for row i if rows is nil. Grants that make no sense are refused whole,
// with an error, and the keys go on as they were. A row that is never
// answered is reported again with the next Report.
func (m Manual) Apply(now stage.Instant, b *Batch, rows []int, grants *rpc.Grants) error {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()

	err := m.g.reporter.Apply(now, b, rows, grants, m.g.settings.Load().hosts)
	if err != nil {
		m.g.metrics.badGrants.Inc(1)
	}
	return err
}

// Fail says that rows of b, as in Apply, will not be answered. They are
// reported again with the next Report; keys that run low may ask again.
func (m Manual) Fail(now stage.Instant, b *Batch, rows []int) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()

	m.g.reporter.Fail(now, b, rows)
}

// Done says that b has been answered as far as it ever will be, and that nobody
// uses its Usage any more: the next Report may take its memory. A batch that is
// not done is left to the garbage collector.
func (m Manual) Done(b *Batch) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()

	m.g.reporter.Done(b)
}

// sleeper is a key that sleeps, and when it is to be forgotten.
type sleeper struct {
	l     *Limiter
	until stage.Instant
}

// sleepLocked has l sleep, which nobody used for some time, and reports whether
// it does: if nothing is lost by that. What is left is its place in the table.
// Like a key that was forgotten, it begins with its fallback when it is used
// again.
func (g *Group) sleepLocked(now stage.Instant, l *Limiter, st *state) bool {
	s := st.pair[0]
	if of := remoteOf(s.Part()); !s.AtRest(now) || of != nil && of.Owes() {
		return false
	}
	p := g.table.Lock(l.key)
	defer p.Unlock()

	g.sleepers = append(g.sleepers, sleeper{l, st.lastUsed().Add(st.rule.idleAfter())})
	l.state.Store(st.rule.asleep)
	s.Retire() // a caller may be using it still
	leave(now, s.Part())
	return true
}

// forgetSleepersLocked forgets those that have slept for long enough, or all.
func (g *Group) forgetSleepersLocked(now stage.Instant, all bool) {
	asleep := g.sleepers[:0]
	for _, s := range g.sleepers {
		switch st := s.l.state.Load(); {
		case st == nil || !st.asleep: // it is among the live again
		case all || now >= s.until:
			g.forgetSleeper(now, s.l)
		default:
			asleep = append(asleep, s)
		}
	}
	clear(g.sleepers[len(asleep):])
	g.sleepers = report.Fitted(asleep)
}

// forgetSleeper forgets l, unless it has just woken up.
func (g *Group) forgetSleeper(now stage.Instant, l *Limiter) {
	p := g.table.Lock(l.key)
	defer p.Unlock()

	if st := l.state.Load(); st != nil && st.asleep {
		g.forget(now, p, l)
	}
}

// idle reports whether a key can be forgotten without anybody noticing: it was
// not used for long, and its buckets are full.
func (g *Group) idle(now stage.Instant, st *state) bool {
	if st.pair[0] == nil && st.touched.Swap(false) {
		st.used = now
	}
	if now.Sub(st.lastUsed()) < st.rule.idleAfter() {
		return false
	}
	for _, p := range st.parts() {
		if !p.Idle(now) {
			return false
		}
	}
	return true
}

// dropLocked forgets l's key. A Limiter that is held brings it back when it is
// used. Usage that comes in meanwhile is in the next report.
func (g *Group) dropLocked(now stage.Instant, l *Limiter) {
	p := g.table.Lock(l.key)
	parts := l.state.Load().parts()
	g.forget(now, p, l)
	p.Unlock()
	for _, p := range parts {
		p.Retire()
		leave(now, p.Part())
	}
}
