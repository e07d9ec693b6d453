// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"cmp"
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// TestModelOfRules drives a Group of one key, whose rule comes and goes: it limits a rate on the host or elsewhere, or
// slots in flight, lets everything through, or is no rule at all. Callers settle under one rule what they took under
// another. Its laws are:
//   - The key never has more tokens than one bucket that keeps its tokens through all changes. A full key may be forgotten.
//   - It never has fewer, unless a caller gave something back under a later rule.
//
// A key whose burst grew while it was full has room for what callers give back of the rule before. One bucket had not.
func TestModelOfRules(t *testing.T) {
	inBubbles(t, func(rt *rapid.T) machine {
		m := &rulesModel{rt: rt, remote: rapid.Bool().Draw(rt, "remote"), at: stage.Now()}
		for m.draw(rt); !m.limits(); m.draw(rt) {
		}
		m.filling, m.tokens, m.least = m.rule, m.rule.Burst, m.rule.Burst
		m.group = limiter.NewGroup(m.config(), 1, driver.WithSeed(1), limiter.WithMigration(shadow.Migrator()),
			limiter.WithRemote("redis", &m.elsewhere), driver.WithBackground(func(f func()) { f() }))
		m.elsewhere.limit = &m.filling.Limit
		return m
	})
}

// rulesModel is the state machine.
type rulesModel struct {
	rt        *rapid.T
	group     *limiter.Group
	remote    bool // rules may name a remote bucket
	elsewhere followingRemote

	kind    string
	rule    dynamicconfig.Rule
	filling dynamicconfig.Rule // the latest that limited a rate
	changes int
	gone    int // how many times the key was found to be forgotten

	at            stage.Instant
	tokens, least float64 // that the key may have, and has to have
	unsure        bool    // it may have fewer
	deep          float64 // least, if all charges since the host has asked a remote bucket, or the rule has changed, came at once
	more          float64 // that came back of an earlier rule while one bucket was full, and this key's may have had room
	open          []*lateReceipt
}

// lateReceipt is what was taken and may be given back.
type lateReceipt struct {
	n       float64 // of the bucket
	changes int     // of the rule until then
	gone    int     // of the key until then
	settle  func(actual int)
	cancels bool // a Reservation, which has no actual cost
	acts    stage.Instant
	after   bool // others took tokens after it
}

func (m *rulesModel) draw(rt *rapid.T) {
	kinds, bursts := []string{"even", "even", "slots", "none", "deny", "bypass"}, []float64{20, 10, 50}
	if m.remote {
		kinds = append(kinds, "redis", "redis", "migrates", "migrates", "migrates")
	}
	m.kind = pick(rt, "kind", kinds...)
	m.rule = dynamicconfig.Rule{Key: "k", Limit: pick[rate.Limit](rt, "limit", 1, 1, 10), Burst: pick(rt, "burst", bursts...), Algorithm: "even", IdleAfter: 3 * time.Second}
	switch m.kind {
	case "redis":
		m.rule.Algorithm = "redis"
	case "slots":
		m.rule.InFlight, m.rule.Burst, m.rule.Limit = true, 0, 10
	case "migrates":
		to := dynamicconfig.Migration{From: "even", To: "redis", Mode: pick(rt, "mode", dynamicconfig.ModeOldShadowNew, dynamicconfig.ModeNewShadowOld, dynamicconfig.ModeOld, dynamicconfig.ModeNew, dynamicconfig.ModeDisabled)}
		if rapid.Bool().Draw(rt, "from elsewhere") {
			to.From, to.To = to.To, to.From
		}
		if m.rule.Algorithm, m.rule.Migration = "", &to; to.Mode == dynamicconfig.ModeDisabled {
			m.kind = "disabled"
		}
	}
}

// limits reports whether the rule limits a rate.
func (m *rulesModel) limits() bool {
	return slices.Contains([]string{"even", "redis", "migrates"}, m.kind)
}

func (m *rulesModel) config() *dynamicconfig.Snapshot {
	c := dynamicconfig.Config{Properties: dynamicconfig.Properties{UpdateInterval: time.Second}}
	switch m.kind {
	case "none":
	case "deny":
		c.Unmatched = dynamicconfig.UnmatchedDeny
	case "bypass":
		return snapshotOf(m.rt, m.rule, dynamicconfig.Override{Bypass: true})
	default:
		return snapshotOf(m.rt, m.rule, dynamicconfig.Override{})
	}
	s, err := c.Snapshot()
	if err != nil {
		m.rt.Fatal(err)
	}
	return s
}

func (m *rulesModel) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"": func(*rapid.T) { m.check() },

		"take": m.take, "take again": m.take, "ask": m.ask, "settle": m.settle, "settle again": m.settle, "charge": m.charge,
		"configure": m.configure, "configure again": m.configure, "time": m.time, "report": m.report,
	}
}

// step lets some time pass.
func (m *rulesModel) step() {
	time.Sleep(time.Nanosecond)
	filled := float64(m.filling.Limit) * stage.Now().Sub(m.at).Seconds()
	m.at = stage.Now()
	m.add(filled, filled)
	if !m.limits() && m.tokens == m.filling.Burst {
		m.tokens = inf // it may be forgotten
	}
}

// add adds so much to the tokens that the key may have, and that it has to have.
func (m *rulesModel) add(tokens, least float64) {
	if m.tokens < inf {
		m.tokens = min(m.tokens+tokens, m.filling.Burst)
	}
	m.least = min(m.least+least, m.filling.Burst)
}

func (m *rulesModel) check() {
	m.step()
	if _, live := m.group.InspectAt(time.Now(), "k"); !m.limits() || !live {
		if m.limits() && m.tokens < m.filling.Burst-eps {
			m.rt.Fatalf("it is forgotten with %v tokens", m.tokens)
		}
		m.gone++
		return
	}
	got := m.group.For("k").Tokens()
	if got > m.tokens+m.more+eps {
		m.rt.Fatalf("%s: %v tokens, and one bucket would have %v", m.kind, got, m.tokens)
	}
	// A remote bucket tells the host of a token, and of the deepest debt, only with its next answer.
	if m.unsure = m.unsure || m.elsewhere.grew; !m.unsure && got < m.least-1-eps && m.least > 1-m.rule.MostDebt() {
		m.rt.Fatalf("%s: only %v tokens, and one bucket would have %v", m.kind, got, m.least)
	}
}

func (m *rulesModel) take(rt *rapid.T) {
	m.step()
	n, l, o := rapid.IntRange(1, 20).Draw(rt, "n"), m.group.For("k"), &lateReceipt{changes: m.changes, gone: m.gone}
	var wait time.Duration
	if o.cancels = m.limits() && rapid.Bool().Draw(rt, "reserves"); o.cancels {
		r := l.ReserveN(time.Now(), n)
		if !r.OK() {
			m.refused()
			return
		}
		wait, o.settle = r.Delay(), func(int) { r.Cancel() }
	} else {
		e := l.Take(context.Background(), n, pick(rt, "longest", 0, 0, 3*time.Second))
		if !e.OK() {
			m.refused()
			return
		}
		wait, o.settle = e.Decision().Wait, e.Settle
	}
	o.acts = m.at.Add(wait)
	if m.limits() {
		o.n, m.deep = float64(n), m.least
		m.took(o.n)
	}
	m.open = append(m.open, o)
}

// refused says that an event was. The bucket that a migration measures may have taken its tokens.
func (m *rulesModel) refused() { m.unsure = m.unsure || m.kind == "migrates" }

// took says that n tokens were taken.
func (m *rulesModel) took(n float64) {
	m.add(-n, -n)
	m.deep = min(m.deep, m.least)
	m.unsure = m.unsure || m.deep < -20 // a debt that some rules make less, of the key or of a bucket
	for _, o := range m.open {
		o.after = true
	}
}

// ask has the host learn what a remote bucket has.
func (m *rulesModel) ask(*rapid.T) {
	m.step()
	m.group.For("k").AllowN(time.Now(), 0)
	m.deep = m.least
}

func (m *rulesModel) settle(rt *rapid.T) {
	if len(m.open) == 0 {
		rt.Skip("nothing is taken")
	}
	m.step()
	i := rapid.IntRange(0, len(m.open)-1).Draw(rt, "which")
	o := m.open[i]
	m.open = slices.Delete(m.open, i, i+1)
	back := o.n
	switch {
	case !o.cancels:
		back -= pick(rt, "actual", 0, math.Floor(o.n/2), o.n)
	case o.after: // what comes back depends on the others
		return
	case o.acts < m.at:
		back = 0
	}
	for range 2 { // the second time does nothing
		o.settle(int(o.n - back))
	}
	if o.gone != m.gone { // a remote bucket gets it, and tells the host with its next answer
		if m.unsure = true; m.kind != "redis" && m.kind != "migrates" { // if no Stage asks the bucket, no account learns of it
			m.more += back
		}
	}
	if o.changes != m.changes {
		m.unsure = true
		m.more += max(m.tokens+back-m.filling.Burst, 0)
	}
	m.add(back, back)
}

// charge takes what is spent already, unless the debt were so deep that a remote bucket forgave a part.
func (m *rulesModel) charge(rt *rapid.T) {
	m.step()
	n := rapid.IntRange(1, 20).Draw(rt, "n")
	if m.limits() && m.least-float64(n) < -m.rule.Burst {
		rt.Skip("it is in debt")
	}
	if m.group.For("k").Charge(n); m.limits() {
		m.deep -= float64(n) // a host that has not asked since does not know that time has passed before
		m.took(float64(n))
	}
}

func (m *rulesModel) time(rt *rapid.T) {
	time.Sleep(pick(rt, "how long", time.Millisecond, time.Second, 3*time.Second, 20*time.Second))
}

func (m *rulesModel) report(*rapid.T) {
	m.step()
	driver.Of(m.group).Report(stage.Now())
}

func (m *rulesModel) configure(rt *rapid.T) {
	m.step()
	if m.tokens == m.filling.Burst {
		m.tokens = inf // a full key begins full under another rule
	}
	m.elsewhere.fill()
	m.draw(rt)
	m.changes++
	m.group.Configure(m.config())
	if !m.limits() && m.kind != "bypass" && m.kind != "disabled" {
		return
	}
	m.tokens, m.least = follow(m.tokens, &m.filling, &m.rule), follow(m.least, &m.filling, &m.rule)
	m.tokens = max(m.tokens, -m.rule.MostDebt()) // what a remote bucket that takes over is charged with at most
	m.filling = m.rule
	m.tokens, m.least = min(m.tokens, m.rule.Burst), min(m.least, m.rule.Burst)
	m.deep = m.least
}

func (*rulesModel) finish() {}
func (*rulesModel) end()    {}

// followingRemote is a remote bucket that knows the limit of its key at any time. Its burst is that of the latest rule
// under which it was asked, as in Redis.
type followingRemote struct {
	limit *rate.Limit
	grew  bool // it was full when it heard of a larger burst, and got no more until then
	oneBucket
	rule *dynamicconfig.Rule
}

// fill fills the bucket until now.
func (b *followingRemote) fill() {
	if now := stage.Now(); b.rule != nil {
		b.tokens = min(b.tokens+float64(*b.limit)*now.Sub(b.at).Seconds(), b.rule.Burst)
		b.at = now
	}
}

// follow has the bucket follow a rule.
func (b *followingRemote) follow(rule *dynamicconfig.Rule) {
	if b.rule != nil {
		b.grew = b.grew || b.tokens == b.rule.Burst && rule.Burst > b.rule.Burst
		b.rule, b.tokens = rule, min(follow(b.tokens, b.rule, rule), rule.Burst)
	}
}

// Do implements stage.Remote.
func (b *followingRemote) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	if b.fill(); b.rule == nil {
		b.oneBucket = oneBucket{op.Rule.Burst, stage.Now()}
	}
	b.rule = cmp.Or(b.rule, op.Rule)
	b.follow(op.Rule)
	o := stage.Outcome{OK: true}
	switch op.Kind {
	case stage.ChargeTokens:
		b.tokens = max(b.tokens-op.N, min(b.tokens, -op.Rule.MostDebt()))
	case stage.ReturnTokens, stage.FillTokens:
		b.tokens = min(b.tokens+op.N, op.Rule.Burst)
	default:
		if o.Wait = max(seconds((op.N-b.tokens)/float64(*b.limit)), 0); o.Wait > op.Longest {
			return stage.Outcome{Left: b.tokens}, nil
		}
		b.tokens -= op.N
	}
	o.Left = b.tokens
	return o, nil
}
