// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

func ruleOf(name string, limit rate.Limit, burst float64) dynamicconfig.Rule {
	r := exactRule(limit, burst)
	r.Algorithm = name
	return r
}

// poolHost is one host of a key under one of the names of a pool.
type poolHost struct {
	a      *Aggregator
	name   string // of the host
	wants  float64
	even   float64 // tokens/s without a grant
	now    time.Duration
	hears  time.Duration // when the next rule
	next   string        // which names that algorithm
	latest subject
	left   *subject // what it has not said yet of the rule before
	asks   int
}

// subject is what a host holds and has used under one algorithm.
type subject struct {
	algorithm         string
	granted           bool
	until             time.Duration
	weight, burst     float64
	tokens            float64
	allowed, rejected int64
	since             time.Duration
}

// advance has h come to now.
func (h *poolHost) advance(now time.Duration, limit float64) {
	s := &h.latest
	s.granted = s.granted && now < s.until
	fill := s.weight * limit
	if !s.granted {
		fill, s.burst = 0, max(s.burst, 1)
		if s.algorithm == algorithm.NameElastic {
			fill = h.even
		}
	}
	s.tokens = min(s.tokens+fill*(now-h.now).Seconds(), s.burst)
	h.now = now
	if h.next != "" && now >= h.hears {
		old := *s
		h.left = &old
		*s = subject{algorithm: h.next, tokens: min(old.tokens, 1), since: now}
		if h.next == algorithm.NameElastic { // a host goes on with what it has
			s.tokens, s.burst = old.tokens, old.burst
		}
		h.next = ""
	}
}

// event is one event; it reports whether it is admitted.
func (h *poolHost) event(t *testing.T, limit float64) (ok bool) {
	s := &h.latest
	switch {
	case s.algorithm == algorithm.NameExact:
		h.asks++
		return h.take(t, usage.Take{Tokens: 1}).OK
	case s.tokens >= 1 && (s.granted || s.algorithm == algorithm.NameElastic):
		s.tokens--
		ok = true
	case s.algorithm == algorithm.NameAuto:
		h.asks++
		take := usage.Take{Auto: true, Tokens: 1, Wants: h.wants}
		if s.granted {
			take.More = 100
		}
		answer := h.take(t, take)
		if answer.OK {
			s.tokens += answer.Lent
			s.burst = max(s.burst, s.tokens)
		}
		return answer.OK
	}
	if ok {
		s.allowed++
	} else {
		s.rejected++
	}
	return ok
}

// take asks the owner. Takes are not reported.
func (h *poolHost) take(t *testing.T, take usage.Take) usage.Took {
	t.Helper()
	take.Key, take.By = "k", h.a.number
	var taken usage.Taken
	h.a.Take(h.now, h.name, &usage.Takes{Rows: []usage.Take{take}}, &taken)
	if !taken.Rows[0].Decided {
		t.Fatalf("at %v the owner does not decide %+v", h.now, take)
	}
	return taken.Rows[0]
}

// say reports s.
func (h *poolHost) say(t *testing.T, s *subject, last bool) {
	if s.algorithm == algorithm.NameExact || h.now == s.since || last && s.allowed+s.rejected == 0 {
		return
	}
	u := reportOf(s.algorithm, s.allowed, s.rejected, h.now-s.since, "k")
	u.Wants = []float64{h.wants}
	if s.granted && h.now < s.until {
		u.Weight[0] = s.weight
	}
	g := step(t, h.a, h.now, h.name, u)
	s.allowed, s.rejected, s.since = 0, 0, h.now
	if g.Lease[0] > 0 {
		s.granted, s.until = true, h.now+g.Lease[0]
		s.weight, s.burst, s.tokens = g.Weight[0], g.Burst[0], g.Tokens[0]
	}
}

// pooledHosts run hosts from one algorithm to another.
type pooledHosts struct {
	t        *testing.T
	a        *Aggregator
	limit    float64
	hosts    []*poolHost
	chance   *rand.Rand
	now      time.Duration
	admitted float64
}

func newPooledHosts(t *testing.T, n int, rule dynamicconfig.Rule) *pooledHosts {
	p := &pooledHosts{t: t, a: under(t, rule), limit: float64(rule.Limit), chance: rand.New(rand.NewPCG(1, 2))}
	for i := range n {
		h := &poolHost{a: p.a, name: fmt.Sprint("host", i), wants: 2 * p.limit / float64(n), even: p.limit / float64(n)}
		h.latest.algorithm = rule.Algorithm
		p.hosts = append(p.hosts, h)
	}
	return p
}

// changes puts rule in force at the owner now, and at the hosts within a second.
func (p *pooledHosts) changes(rule dynamicconfig.Rule) {
	configured(p.t, p.a, p.now, rule)
	for i, h := range p.hosts {
		h.next, h.hears = rule.Algorithm, p.now+time.Duration(i+1)*time.Second/time.Duration(len(p.hosts))
	}
}

// runs has hosts want twice the limit until then. They report each second.
func (p *pooledHosts) runs(until time.Duration) {
	const tick = 10 * time.Millisecond
	for ; p.now < until; p.now += tick {
		for i, h := range p.hosts {
			h.advance(p.now, p.limit)
			for n := h.wants * tick.Seconds(); n > p.chance.Float64(); n-- {
				if h.event(p.t, p.limit) {
					p.admitted++
				}
			}
			if p.now%time.Second == time.Duration(i)*tick {
				h.say(p.t, &h.latest, false)
				if h.left != nil {
					h.say(p.t, h.left, true)
					h.left = nil
				}
			}
		}
		if p.now%time.Second == 0 {
			p.a.GC(p.now)
		}
	}
}

// A rule that names another of the pool's names takes the pool over, with its tokens, its
// debt and what hosts hold.
func TestAChangeOfReachKeepsThePool(t *testing.T) {
	const limit, burst = 200, 2000
	for _, from := range rules.Pooled {
		for _, to := range rules.Pooled {
			if from == to {
				continue
			}
			for _, debt := range []float64{0, 600} {
				t.Run(fmt.Sprint(from, " to ", to, ", debt ", debt), func(t *testing.T) {
					p := newPooledHosts(t, 10, ruleOf(from, limit, burst))
					p.runs(20 * time.Second)
					if debt > 0 {
						p.charges(from, debt)
					}
					before, began := p.admitted, p.now
					p.changes(ruleOf(to, limit, burst))
					if debt > 0 {
						p.a.GC(p.now) // no host has reported or asked since
					}
					p.runs(began + 5*time.Second)
					soon := p.admitted - before
					p.runs(began + 15*time.Second)
					later := p.admitted - before - soon
					t.Logf("%.0f in 5 s, then %.0f in 10 s; in all %.0f of %.0f", soon, later, p.admitted, limit*p.now.Seconds()+burst)
					// A new account would have at least half a burst.
					if most := limit*15 - debt + burst/20; soon > limit*5+burst/20 || soon+later > most {
						t.Errorf("%.0f in 5 s, and %.0f in 15 s; at most %v and %v", soon, soon+later, limit*5+burst/20, most)
					}
					if later < 0.9*limit*10 || soon < 0.9*limit*5-debt {
						t.Errorf("%.0f in 5 s, and then %.0f in 10 s; want 0.9 of the limit", soon, later)
					}
				})
			}
		}
	}
}

// charges has the key owe so much that was used already.
func (p *pooledHosts) charges(name string, tokens float64) {
	switch name {
	case algorithm.NameElastic:
		p.hosts[0].latest.allowed += int64(tokens)
	default:
		took(p.t, p.a, p.now, usage.Take{Tokens: tokens, Auto: name == algorithm.NameAuto, Spent: usage.SpentBeyond})
	}
	p.admitted += tokens
}

// Nor do many changes make a burst, or lose one.
func TestManyChangesOfReachKeepThePool(t *testing.T) {
	const limit, burst = 200, 2000
	p := newPooledHosts(t, 10, ruleOf(algorithm.NameExact, limit, burst))
	p.runs(15 * time.Second)
	for i := range 30 {
		p.changes(ruleOf(rules.Pooled[i%len(rules.Pooled)], limit, burst))
		p.runs(p.now + time.Duration(1+i%4)*time.Second)
	}
	most := limit*p.now.Seconds() + burst
	t.Logf("%.0f of %.0f", p.admitted, most)
	if p.admitted > most+burst/4 || p.admitted < 0.9*most {
		t.Errorf("%.0f are admitted of %.0f", p.admitted, most)
	}
	if n := p.a.keys.Len(); n != 1 {
		t.Errorf("one key has %d accounts", n)
	}
}

// A host that has not heard of the rule asks under the name that it knows, and gives
// back under it too: the pool decides.
func TestTakesUnderAnotherNameAreOfThePool(t *testing.T) {
	for _, name := range rules.Pooled {
		a := under(t, ruleOf(name, 1e-6, 100))
		a.Moved(-time.Hour)
		for i, auto := range []bool{false, true} {
			at := time.Duration(i) * time.Second
			if got := took(t, a, at, usage.Take{Tokens: 30, Auto: auto, More: 10}); !got.OK || got.Lent != 0 {
				t.Errorf("%s, auto %v: %+v", name, auto, got)
			}
		}
		if got := took(t, a, 2*time.Second, usage.Take{Tokens: 50}); got.OK {
			t.Errorf("%s: 110 are taken of 100", name)
		}
		a.undo(2*time.Second, []usage.Take{{Key: "k", Auto: true, Tokens: -30}})
		a.GC(2 * time.Second)
		if got := took(t, a, 3*time.Second, usage.Take{}); got.Left < 69.9 || got.Left > 70.1 {
			t.Errorf("%s: %v left, want 70", name, got.Left)
		}
		if n := a.keys.Len(); n != 1 {
			t.Errorf("%s: %d accounts", name, n)
		}
	}
}

// Nor can such takes make more keys than the rule has.
func TestTakesUnderAnotherNameMakeNoMoreKeys(t *testing.T) {
	rule := ruleOf(algorithm.NameElastic, 1, 100)
	rule.MaxKeys = 10
	a := under(t, rule)
	for i := range 20 {
		if got := took(t, a, 0, usage.Take{Key: fmt.Sprint("k", i), Tokens: 1}); got.Decided != (i < 10) {
			t.Errorf("key %d: %+v", i, got)
		}
	}
	rule.Algorithm = algorithm.NameExact
	configured(t, a, 0, rule)
	a.GC(0)
	if got := took(t, a, 0, usage.Take{Key: "another", Tokens: 1}); got.Decided {
		t.Errorf("the keys have moved, and there is room for %+v", got)
	}
	if got := inQuota(a, "*", false); got != 10 {
		t.Errorf("%d keys are counted, want 10", got)
	}
}

// While a rule migrates from one name to another, what is measured has an account of its own; what
// answers before and after goes on.
func TestAMigrationHasAnAccountOfItsOwn(t *testing.T) {
	for _, from := range []string{algorithm.NameExact, algorithm.NameAuto} {
		isAuto := from == algorithm.NameAuto
		to := algorithm.NameAuto
		if isAuto {
			to = algorithm.NameExact
		}
		a := under(t, ruleOf(from, 1e-6, 100))
		took(t, a, 0, usage.Take{Tokens: 60, Auto: isAuto})
		migrates := ruleOf("", 1e-6, 100)
		migrates.Migration = &dynamicconfig.Migration{From: from, To: to, Mode: dynamicconfig.ModeOldShadowNew}
		configured(t, a, time.Second, migrates)
		old, next := took(t, a, time.Second, usage.Take{Auto: isAuto}).Left, took(t, a, time.Second, usage.Take{Auto: !isAuto, Measured: true}).Left
		if !(old < 41 && next > 99) || a.keys.Len() != 2 {
			t.Errorf("%s: %v and %v are left of %d accounts", from, old, next, a.keys.Len())
		}
		configured(t, a, 2*time.Second, ruleOf(algorithm.NameElastic, 1e-6, 100))
		a.GC(2 * time.Second)
		if got := took(t, a, 2*time.Second, usage.Take{}).Left; got > 41 {
			t.Errorf("%s: %v are left, where the account that answered had 40", from, got)
		}
	}
}

// The lease of the cluster above stays with the key.
func TestAChangeOfReachKeepsTheLeaseFromAbove(t *testing.T) {
	for _, from := range rules.Pooled {
		for _, to := range rules.Pooled {
			a := below(t, dynamicconfig.Rule{Algorithm: from})
			u := reportOf(from, 40, 0, s, "k")
			u.Wants = []float64{40}
			step(t, a, 0, "host", u)
			took(t, a, 0, usage.Take{Tokens: 1})
			answered(t, a, s, lease(50))
			k := known(a, from, "k")
			before := k.Part(s)
			configured(t, a, s, dynamicconfig.Rule{Key: "*", Limit: k.Rule.Limit, Burst: k.Rule.Burst, Lease: k.Rule.Lease, Parent: true, Algorithm: to})
			a.GC(s)
			if now := known(a, to, "k"); now != k || k.Part(s) != before || before == 0 || k.Above.Account != k.Account {
				t.Errorf("%s to %s: the key has %v of the limit, and had %v", from, to, k.Part(s), before)
			}
		}
	}
}

// A rule whose algorithm or mode changes has no room for more keys while those that there are have not heard of it.
func TestAChangeOfTheAlgorithmMakesNoRoomForKeys(t *testing.T) {
	const most = 3
	under := func(algorithm string, m *dynamicconfig.Migration) dynamicconfig.Rule {
		r := ruleOf("", 1e-3, 100)
		r.Key, r.Algorithm, r.Migration, r.MaxKeys = "*", algorithm, m, most
		return r
	}
	migrating := func(mode dynamicconfig.Mode) dynamicconfig.Rule {
		return under("", &dynamicconfig.Migration{From: algorithm.NameExact, To: algorithm.NameAuto, Mode: mode})
	}
	a := New(algorithm.Builtin(), snapshot(t, cadence, migrating(dynamicconfig.ModeOldShadowNew)))
	for i, rule := range []dynamicconfig.Rule{
		migrating(dynamicconfig.ModeOldShadowNew), migrating(dynamicconfig.ModeNewShadowOld), migrating(dynamicconfig.ModeOld), under(algorithm.NameAuto, nil), under(algorithm.NameExact, nil),
	} {
		configured(t, a, time.Second, rule)
		made := 0
		for n := range 2 * most {
			if took(t, a, time.Second, usage.Take{Key: fmt.Sprint(i, n), Tokens: 1}).Decided {
				made++
			}
		}
		if want := max(most*(1-i), 0); made != want {
			t.Errorf("rule %d: %d keys are made, want %d", i, made, want)
		}
	}
}

// A host may hear that a migration goes on before the owner does, for which it is disabled: it finds the pool that there is.
func TestAHostThatHearsFirstOfTheEndOfABypassFindsThePool(t *testing.T) {
	migrating := func(mode dynamicconfig.Mode) dynamicconfig.Rule {
		r := ruleOf("", 1e-6, 100)
		r.Migration = &dynamicconfig.Migration{From: algorithm.NameExact, To: algorithm.NameAuto, Mode: mode}
		return r
	}
	for _, auto := range []bool{false, true} {
		before, after := dynamicconfig.ModeOld, dynamicconfig.ModeNew
		if auto {
			before, after = after, before
		}
		a := under(t, migrating(before))
		took(t, a, 0, usage.Take{Auto: auto, Tokens: 90})
		configured(t, a, 0, migrating(dynamicconfig.ModeDisabled))
		step(t, a, 0, "early", reportOf(map[bool]string{false: algorithm.NameAuto, true: algorithm.NameExact}[auto], 1, 0, time.Second, "k"))
		early := took(t, a, 0, usage.Take{Auto: !auto, Tokens: 1})
		configured(t, a, 0, migrating(after))
		if got := took(t, a, 0, usage.Take{Auto: !auto, Tokens: 1}).Left; !early.Decided || early.Left > 9.1 || got > 8.1 {
			t.Errorf("auto %v: %v tokens are left of 9, and then %v of 8", auto, early.Left, got)
		}
	}
}
