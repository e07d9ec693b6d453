// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"slices"

	"github.com/headgate/headgate/dynamicconfig"
)

// shape makes k what its rule says, out of what it is already: counts, tokens
// and grants stay wherever an algorithm stays. Either k is not live yet, or
// g.mu is held.
func (g *Group) shape(now Instant, k *Keyed, a *admitted, common *Keyed) {
	old := k.core
	if old == nil {
		old = &core{used: now}
	}
	c := &core{admitted: a, alias: common != nil, used: old.lastUsed()}
	k.core = c
	switch {
	case common != nil:
		k.decideBy(common)
	case a.rule == nil:
		k.decideBy(g.unmatchedStep(k.key))
	default:
		// What answers from now on has no more tokens than what did.
		tokens := math.Inf(1)
		if len(old.shares) > 0 && old.shares[0].slots == nil {
			tokens = k.decider().Level(now).Tokens
		}
		g.recast(now, k, old, tokens)
	}
	for _, s := range old.shares {
		if !slices.Contains(c.shares, s) {
			g.gone = append(g.gone, s)
			g.end(s)
		}
	}
}

// recast fills k.core with the shares that its rule wants.
func (g *Group) recast(now Instant, k *Keyed, old *core, tokens float64) {
	rule, hosts := k.core.admitted.rule, int(g.hosts.Load())
	wanted := algorithms(rule)
	kept := old.shares
	if len(kept) > 0 && (kept[0].slots != nil) != rule.InFlight {
		kept = nil // tokens and slots have nothing in common
	}
	before := old.special
	if before == nil {
		before = new(special)
	}
	steps := make([]Stepper, 0, 2)
	for i, name := range wanted {
		s := find(kept, name)
		if s == nil && len(wanted) == 1 && len(kept) == 1 {
			s = kept[0]
			s.forget(now, hosts)
			s.algorithm = name
		}
		if s == nil {
			s = newShare(now, k.key, name, rule, hosts, tokens)
			s.salt = g.early.salt()
			if len(kept) > 0 {
				s.stated.Store(kept[0].stated.Load())
			}
		}
		s.rule, s.remote = rule, name != Even && (g.remotes[name] == nil || name == Auto)
		if name != Auto {
			s.auto = nil
		}
		s.terms.Store(k.core.admitted.terms[i])
		s.steer(now, hosts)
		g.begin(now, s)
		k.core.shares = append(k.core.shares, s)
		steps = append(steps, g.stepOf(before, s))
	}
	if rule.Migration == nil {
		s := k.core.shares[0]
		if s.slots == nil {
			s.CapAt(now, tokens)
		}
		if steps[0] != Stepper(s) {
			k.core.special = &special{steps: steps}
		}
		g.decideBy(k, steps[0])
		return
	}
	k.core.special = &special{steps: steps}
	mode := rule.Migration.Mode
	if m := before.migrator; m != nil && slices.Equal(before.steps, steps) {
		m.SetMode(now, mode)
		k.core.special.migrator = m
		g.decideBy(k, m)
		return
	}
	if g.migrate == nil {
		step := answering(steps, mode)
		step.CapAt(now, tokens)
		g.decideBy(k, step)
		return
	}
	m := g.migrate(steps[0], steps[1], mode)
	m.CapAt(now, tokens)
	k.core.special.migrator = m
	g.decideBy(k, m)
}

// stepOf is what decides for s alone; that of before if it is the same still.
func (g *Group) stepOf(before *special, s *share) Stepper {
	remote := g.remotes[s.algorithm]
	switch {
	case s.slots != nil:
		return inFlight{s}
	case s.algorithm == Auto && remote != nil:
		return g.autoOf(s, remote)
	case remote != nil:
		for _, step := range before.steps {
			if a, ok := step.(*asked); ok && a.share == s && a.remote == remote {
				return a
			}
		}
		return newAsked(g, s, remote)
	case !s.terms.Load().plain():
		return ruled{s}
	}
	return s
}

// answering is what answers in mode when nothing measures the other.
func answering(steps []Stepper, mode dynamicconfig.Mode) Stepper {
	switch mode {
	case dynamicconfig.ModeOld, dynamicconfig.ModeOldShadowNew:
		return steps[0]
	case dynamicconfig.ModeNew, dynamicconfig.ModeNewShadowOld:
		return steps[1]
	default:
		return unlimited{}
	}
}

// decideBy lets step decide, behind a gate if k's rule wants one.
func (g *Group) decideBy(k *Keyed, step Stepper) {
	step = g.gated(k, step)
	if a, ok := step.(*auto); ok && !a.asks.Load() && a.terms.Load().plain() {
		step = a.share
	}
	if s, ok := step.(*share); ok {
		k.share.Store(s)
		k.other.Store(nil)
		return
	}
	k.decideBy(step)
}

// decideBy lets step decide.
func (k *Keyed) decideBy(step Stepper) {
	o := &other{step: step}
	o.touched.Store(true)
	k.other.Store(o)
	k.share.Store(nil)
}

// algorithms that a rule wants, the old one first.
func algorithms(rule *dynamicconfig.Rule) []string {
	if m := rule.Migration; m != nil {
		return []string{m.From, m.To}
	}
	return []string{rule.Algorithm}
}

func find(shares []*share, algorithm string) *share {
	for _, s := range shares {
		if s.algorithm == algorithm {
			return s
		}
	}
	return nil
}

// Configure puts the rules of snapshot in force, for held limiters too. A key
// whose limit changed keeps its tokens.
func (g *Group) Configure(now Instant, snapshot *dynamicconfig.Snapshot) {
	r := newRules(snapshot)
	g.config.Lock()
	g.rules = r
	g.config.Unlock()
	g.intervalNow.Store(int64(snapshot.Properties().UpdateInterval))

	g.mu.Lock()
	defer g.mu.Unlock()

	g.config.RLock()
	defer g.config.RUnlock()

	if g.rules != r {
		return // a newer one came by, and does the rest
	}
	g.mergeLocked()
	g.forgetSleepersLocked(never)
	live := g.live[:0]
	for _, k := range g.live {
		if k.core.admitted.of == r {
			live = append(live, k) // admitted under the new rules
			continue
		}
		a := r.match(k.key)
		if a.keys.Add(1) > a.most() {
			a.keys.Add(-1)
			g.dropLocked(now, k)
			continue
		}
		g.shape(now, k, a, g.common(now, a, k.key))
		live = append(live, k)
	}
	clear(g.live[len(live):])
	g.live = live
}

// SetHosts tells how many hosts there are, which the even share depends on.
func (g *Group) SetHosts(now Instant, hosts int) {
	if g.hosts.Swap(int64(max(hosts, 1))) == int64(max(hosts, 1)) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()

	g.mergeLocked()
	for _, k := range g.live {
		for _, s := range k.core.shares {
			s.steer(now, int(g.hosts.Load()))
		}
	}
}
