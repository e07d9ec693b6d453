// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// oneBucket is a bucket that may owe. What it owes beyond its burst is too much.
type oneBucket struct{ used, most float64 }

func (b *oneBucket) fill(tokens float64) { b.used = max(b.used-tokens, 0) }

// shrink makes the burst less. What is left stays, as far as there is room.
func (b *oneBucket) shrink(less float64) {
	b.used = max(b.used-max(less, 0), 0)
	b.most = b.used
}

func (b *oneBucket) use(tokens float64) {
	b.used += tokens
	b.most = max(b.most, b.used)
}

// lower is one cluster below, with its owner and one host.
type lower struct {
	name        string
	a           *Aggregator
	wants, cost float64
	due         float64 // tokens that its host wants by now
	told        map[bool]usage.Take
	answers     []late
	alone       bool // its rule has no parent for now
	own         oneBucket

	allowed, rejected     float64 // since the last report
	tokens, burst, weight float64 // of a host that reports
	offered, passed       float64
}

// late is the answer to a claim, on its way.
type late struct {
	at     time.Duration
	asked  *claims.Claims
	leases *claims.Leases
}

// belowMachine is two clusters below one that leases them a limit.
type belowMachine struct {
	*rapid.T

	tb         testing.TB // of all walks
	chance     *rand.Rand
	above      *Aggregator
	top, rule  dynamicconfig.Rule
	clusters   []*lower
	now        time.Duration
	gone, slow time.Duration // until when no claim arrives, and by how much answers come late

	all     oneBucket // what passes in both clusters
	granted bool      // under auto, at some time
	largest float64   // event
	cut     time.Duration
	before  dynamicconfig.Rule // the limit that may still be in force until cut
	trace   string
}

// apart is how far apart the reports of a host are.
const apart = 3 * s

func (m *belowMachine) owner(r dynamicconfig.Rule) *Aggregator {
	return New(algorithm.Builtin(), m.snapshot(r))
}

func (m *belowMachine) snapshot(r dynamicconfig.Rule) *dynamicconfig.Snapshot {
	p := cadence
	p.UpdateInterval, p.DecayAfter, p.GCAfter = apart, 2*apart, 10*apart
	return snapshot(m.tb, p, terms(r))
}

func (m *belowMachine) configure(a *Aggregator, r dynamicconfig.Rule) {
	if err := a.Configure(m.snapshot(r)); err != nil {
		m.Fatal(err)
	}
}

// configureAll puts the rule in force everywhere.
func (m *belowMachine) configureAll() {
	m.configure(m.above, m.top)
	for _, c := range m.clusters {
		m.configure(c.a, m.ruleOf(c))
	}
}

func (m *belowMachine) ruleOf(c *lower) dynamicconfig.Rule {
	r := m.rule
	r.Parent = !c.alone
	return r
}

// asks reports whether hosts ask for each event.
func (m *belowMachine) asks() bool {
	return m.rule.Migration != nil || m.rule.Algorithm == algorithm.NameExact || m.rule.Algorithm == algorithm.NameAuto
}

// named are the algorithms that a host asks for an event: first the one that answers.
func (m *belowMachine) named() []string {
	mig := m.rule.Migration
	switch {
	case mig == nil:
		return []string{m.rule.Algorithm}
	case mig.Mode == dynamicconfig.ModeOld:
		return []string{mig.From}
	case mig.Mode == dynamicconfig.ModeOldShadowNew:
		return []string{mig.From, mig.To}
	case mig.Mode == dynamicconfig.ModeNewShadowOld:
		return []string{mig.To, mig.From}
	default:
		return []string{mig.To}
	}
}

// ask is an event of c for which its host asks. It reports whether the event passes.
func (m *belowMachine) ask(c *lower) (passes bool) {
	for i, name := range m.named() {
		measured := i > 0
		t := usage.Take{Tokens: c.cost, Auto: name == algorithm.NameAuto, Measured: measured, By: c.told[measured].By, Told: c.told[measured].Told, Key: "k"}
		if t.By != 0 {
			t.Ago = m.now - c.told[measured].Ago
		}
		taken := new(usage.Taken)
		c.a.Take(m.now, "h", &usage.Takes{Rows: []usage.Take{t}}, taken)
		got := taken.Rows[0]
		if got.Decided {
			c.told[measured] = usage.Take{By: taken.By, Told: got.Left, Ago: m.now}
		}
		if i == 0 {
			passes = got.Decided && got.OK && got.Wait == 0
		}
	}
	return passes
}

// event is an event of c. Under the algorithms of which hosts hold a part, the host decides.
func (m *belowMachine) event(c *lower) {
	c.offered += c.cost
	passes := false
	if m.asks() {
		passes = m.ask(c)
		c.rejected += c.cost // what the owner allows counts as that
	} else if passes = c.tokens >= c.cost; passes {
		c.tokens -= c.cost
		c.allowed += c.cost
	} else {
		c.rejected += c.cost
	}
	switch {
	case !passes:
	case c.alone:
		c.own.use(c.cost)
		c.passed += c.cost
	default:
		m.all.use(c.cost)
		c.passed += c.cost
	}
}

// report is the report of c's host, to each algorithm that it has one for.
func (m *belowMachine) report(c *lower) {
	for i, name := range m.named() {
		if name == algorithm.NameExact {
			continue
		}
		u := reportOf(name, int64(c.allowed), int64(c.rejected), apart, "k")
		u.Weight[0] = c.weight
		if name != algorithm.NameFairShare {
			u.Wants = []float64{(c.allowed + c.rejected) / apart.Seconds()}
		}
		g := step(m.tb, c.a, m.now, "h", u)
		m.granted = true
		if i > 0 || m.asks() || g.Lease[0] == 0 {
			continue
		}
		c.weight, c.burst = g.Weight[0], max(g.Burst[0], 1)
		if name == algorithm.NameElastic {
			c.tokens = g.Tokens[0]
		}
		c.tokens = min(c.tokens, c.burst)
	}
	c.allowed, c.rejected = 0, 0
}

// pass has time pass.
func (m *belowMachine) pass(d time.Duration) {
	const tick = s / 10
	for end := m.now + d; m.now < end; m.now += tick {
		limit := float64(m.rule.Limit)
		if m.now < m.cut {
			limit = max(limit, float64(m.before.Limit))
		}
		m.all.fill(limit / 10)
		for i, c := range m.clusters {
			c.own.fill(limit / 10)
			c.tokens = min(c.tokens+c.weight*float64(m.rule.Limit)/10, max(c.burst, c.tokens))
			for c.due += c.wants / 10 * (2 * m.chance.Float64()); c.cost > 0 && c.due >= c.cost; c.due -= c.cost {
				m.event(c)
			}
			if m.now%apart == time.Duration(i)*s {
				m.report(c)
				c.a.GC(m.now)
				m.above.GC(m.now)
			}
			if asked := c.a.Parent().Ask(m.now, c.name); asked != nil {
				var leases *claims.Leases
				if m.now >= m.gone {
					leases = m.above.Claim(m.now, asked)
				}
				c.answers = append(c.answers, late{m.now + m.slow, asked, leases})
			}
			for len(c.answers) > 0 && c.answers[0].at <= m.now {
				c.a.Parent().Hear(m.now, c.answers[0].asked, c.answers[0].leases, nil)
				c.answers = c.answers[1:]
			}
		}
	}
}

// allowance is how much more than the limit may pass.
func (m *belowMachine) allowance() float64 {
	limit, burst := max(float64(m.rule.Limit), float64(m.before.Limit)), max(m.rule.Burst, m.before.Burst)
	more, over := burst+6*m.largest+1, algorithm.Elastic{}.Overshoot(algorithm.Limit{Rate: limit, Burst: burst}, 2, apart)
	switch {
	case !m.asks():
		return more + over + limit*apart.Seconds()
	case m.granted: // hosts give back rates that they have not used
		return more + over
	}
	return more
}

// renew gives c a new owner, which hears of the earlier one's buckets if handed.
func (m *belowMachine) renew(c *lower, handed bool) {
	before := c.a
	c.a = m.owner(m.ruleOf(c))
	c.a.Moved(m.now)
	if handed {
		rows := before.keys.Buckets(m.now, before.number, func(string) bool { return true })
		c.a.Take(m.now, "", &usage.Takes{Rows: rows}, new(usage.Taken))
	}
	c.answers = nil
}

// scale makes the limit and the burst factor times what they are, in all clusters at once. What a
// cluster was leased of a higher limit stays until it asks again, or until its lease ends.
func (m *belowMachine) scale(factor float64) {
	if m.rule.Burst*factor < 2 {
		factor = 2
	}
	if m.now >= m.cut || m.before.Limit < m.rule.Limit {
		m.before = m.rule
	}
	for _, r := range []*dynamicconfig.Rule{&m.top, &m.rule} {
		r.Limit, r.Burst = rate.Limit(float64(r.Limit)*factor), r.Burst*factor
	}
	m.cut = m.heard()
	m.configureAll()
}

// heard is when all clusters know what the cluster above leases now, or their leases have ended.
func (m *belowMachine) heard() time.Duration {
	return max(m.now, min(m.gone, m.now+60*s)) + 10*s + 2*m.slow
}

// hinder has clusters that do not know a change of the limit yet hear of it later.
func (m *belowMachine) hinder() {
	if m.now < m.cut {
		m.cut = max(m.cut, m.heard())
	}
}

// check reports too much that has passed.
func (m *belowMachine) check() {
	m.Helper()
	if most := m.allowance(); m.all.most > most {
		m.Fatalf("%v more than the limit passed, at most %v:%s", m.all.most, most, m.trace)
	}
	for _, c := range m.clusters {
		if most := m.allowance(); c.own.most > most {
			m.Fatalf("%v more than the limit passed in %s alone, at most %v:%s", c.own.most, c.name, most, m.trace)
		}
	}
	if less := m.before.Burst - m.rule.Burst; m.now >= m.cut && less != 0 {
		m.before = m.rule
		m.all.shrink(less)
		for _, c := range m.clusters {
			c.own.shrink(less)
		}
	}
}

func (m *belowMachine) String() string {
	return fmt.Sprintf("%v of %v/s, burst %v", m.named(), m.rule.Limit, m.rule.Burst)
}

// Two clusters share a limit that a cluster above leases to them. Their hosts have events of any
// cost, the cluster above falls silent for a while, answers late or has a new owner, owners move with and without a
// hand-over, limits change, a migration goes on and back, and a rule has no parent for a while. In
// each window, the events that pass are no more than the limit and a burst, some events for each
// cluster, and what the algorithm states. Once nothing fails any more, and there is plenty, next to
// nothing is refused.
func TestTwoClustersBelowAParentShareItsLimit(tb *testing.T) {
	rapid.Check(tb, func(t *rapid.T) {
		limit := rapid.SampledFrom([]float64{5, 20, 100, 1000}).Draw(t, "limit")
		burst := limit * rapid.SampledFrom([]float64{0.5, 1, 3}).Draw(t, "burst in seconds")
		top := dynamicconfig.Rule{Limit: rate.Limit(limit), Burst: burst, Learning: 60 * s, Fallback: dynamicconfig.FallbackClosed}
		top.Algorithm = rapid.SampledFrom([]string{algorithm.NameFairShare, algorithm.NameProportionalShare}).Draw(t, "above")
		rule := top
		rule.Learning = dynamicconfig.None
		rule.Algorithm = rapid.SampledFrom([]string{algorithm.NameExact, algorithm.NameAuto, algorithm.NameElastic, algorithm.NameFairShare}).Draw(t, "algorithm")
		rule.MaxDebt = rapid.SampledFrom([]time.Duration{0, 10 * s}).Draw(t, "max_debt")
		m := &belowMachine{T: t, tb: tb, chance: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "chance"), 0)), top: top, rule: rule, before: rule, largest: 1}
		m.above = m.owner(top)
		for _, name := range []string{"a", "b"} {
			rule.Parent = true
			m.clusters = append(m.clusters, &lower{name: name, a: m.owner(rule), told: make(map[bool]usage.Take)})
		}
		actions := []string{"pass", "wants", "wants", "gone", "slow", "limit", "above dies"}
		if m.asks() {
			actions = append(actions, "moves", "dies", "rule", "migration", "alone")
		}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			c := rapid.SampledFrom(m.clusters).Draw(t, "cluster")
			what := rapid.SampledFrom(actions).Draw(t, "what")
			switch what {
			case "wants":
				c.wants = limit * rapid.SampledFrom([]float64{0, 0.003, 0.05, 0.5, 1, 10}).Draw(t, "wants")
				c.cost = min(rapid.SampledFrom([]float64{1, 2, 7, 30}).Draw(t, "cost"), max(burst/15, 1))
				m.largest = max(m.largest, c.cost)
				what = fmt.Sprint(what, " ", c.wants, " of ", c.cost)
			case "gone":
				m.gone = m.now + rapid.SampledFrom([]time.Duration{s, 20 * s, 90 * s}).Draw(t, "for")
				m.hinder()
			case "slow":
				m.slow = rapid.SampledFrom([]time.Duration{0, s / 2, 3 * s}).Draw(t, "by")
				m.hinder()
			case "limit":
				m.scale(rapid.SampledFrom([]float64{0.3, 0.5, 2}).Draw(t, "limit"))
				what = m.String()
			case "rule": // of both clusters, which go on with what there is
				if m.rule.Migration == nil {
					m.rule.Algorithm = alternative(m.rule.Algorithm)
				}
				m.configureAll()
			case "migration":
				m.migrate()
				what = m.String()
			case "alone":
				c.alone = !c.alone
				m.configure(c.a, m.ruleOf(c))
			case "above dies":
				m.above = m.owner(m.top)
				m.above.Moved(m.now)
			case "moves", "dies":
				m.renew(c, what == "moves")
			}
			m.trace += fmt.Sprintf("\n%v %s: %s", m.now, c.name, what)
			m.pass(rapid.SampledFrom([]time.Duration{s, 5 * s, 30 * s}).Draw(t, "time"))
			m.check()
		}
		m.quiet()
	})
}

// alternative is the other algorithm under which hosts ask.
func alternative(name string) string {
	if name == algorithm.NameAuto {
		return algorithm.NameExact
	}
	return algorithm.NameAuto
}

// migrate takes a migration a step on or back, or begins one. When another algorithm answers, it
// may have a full bucket.
func (m *belowMachine) migrate() {
	before := m.named()[0]
	switch mig := m.rule.Migration; {
	case mig == nil:
		m.rule.Migration = &dynamicconfig.Migration{From: m.rule.Algorithm, To: alternative(m.rule.Algorithm), Mode: dynamicconfig.ModeOld}
	case mig.Mode == dynamicconfig.ModeNew:
		m.rule.Algorithm, m.rule.Migration = mig.To, nil
	default:
		next := *mig
		next.Mode++
		m.rule.Migration = &next
	}
	if m.named()[0] != before {
		m.all.fill(m.rule.Burst)
		for _, c := range m.clusters {
			c.own.fill(m.rule.Burst)
		}
	}
	m.configureAll()
}

// quiet checks that next to nothing is refused when little is wanted and nothing fails.
func (m *belowMachine) quiet() {
	m.gone, m.slow = m.now, 0
	for i, c := range m.clusters {
		c.alone = false
		c.wants, c.cost = []float64{0.1, 0.15}[i]*float64(m.rule.Limit), 1
	}
	m.configureAll()
	m.pass(150 * s)
	for _, c := range m.clusters {
		c.offered, c.passed = 0, 0
	}
	m.pass(60 * s)
	for _, c := range m.clusters {
		few := 0.02*c.offered + 1
		switch {
		case m.rule.Algorithm == algorithm.NameElastic: // whose hosts report in time only, here
			few += 0.1*c.offered + 2
		case m.rule.Algorithm == algorithm.NameFairShare && m.rule.Limit < 100:
			continue // a tenth more than is wanted is less than the next event
		case m.rule.Algorithm == algorithm.NameFairShare:
			few += 0.15 * c.offered
		}
		if refused := c.offered - c.passed; refused > few {
			m.Fatalf("under %v, %v of %v in cluster %s are refused:%s", m, refused, c.offered, c.name, m.trace)
		}
	}
}
