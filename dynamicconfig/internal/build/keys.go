// SPDX-License-Identifier: Apache-2.0

package build

import (
	"sync"

	"github.com/headgate/headgate/dynamicconfig/internal/glob"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Keys finds rules by their number. Contents whose rules have the same keys in the same order share it.
type Keys struct {
	Index    glob.Index
	Patterns map[string]int // the rules that are globs, by their text

	once   sync.Once // guards what follows
	hidden map[int]string
}

// Hidden are the rules that no key finds, by their number: each with the glob that hides it. rules are all.
func (k *Keys) Hidden(rules []*rule.Rule) map[int]string {
	k.once.Do(func() {
		patterns := make([]string, len(rules))
		for i, r := range rules {
			patterns[i] = r.Key
		}
		k.hidden = glob.Hidden(patterns)
	})
	return k.hidden
}

// add makes rule i findable. It returns the rule that already has the same key, or -1.
func (k *Keys) add(i int, g *glob.Glob, r *rule.Rule) (taken int) {
	taken = k.Index.Add(i, g)
	if g.Exact() {
		return taken
	}
	if j, ok := k.Patterns[r.Key]; ok {
		return j
	}
	k.Patterns[r.Key] = i
	if r.Shared {
		k.Index.Share(i, r.Key)
	}
	return taken
}

// follow finds the rules by what found those before, or else anew.
func (b *runs) follow(problems *strictyaml.Problems) {
	c, before := b.content, b.before
	if before != nil && c.sameKeys(before) {
		c.Keys = before.Keys
		return
	}
	c.Keys.Index.Grow(len(c.Rules))
	i := 0
	for _, p := range c.Runs {
		for j, g := range p.globs {
			if g == nil {
				g, _ = glob.Compile(p.Rules[j].Key) // it has no mistake
			}
			if taken := c.Keys.add(i, g, &p.Rules[j]); taken >= 0 {
				problems.Add(Mark{}, "rule %s: key: rule number %d has the same key: remove one of the two", message.Quote(p.Rules[j].Key), taken+1)
			}
			i++
		}
	}
	c.Keys.Index.Finish()
}

// sameKeys reports whether the rules of both are found alike.
func (c *Content) sameKeys(before *Content) bool {
	if len(c.Rules) != len(before.Rules) {
		return false
	}
	for i, r := range c.Rules {
		if o := before.Rules[i]; r != o && (r.Key != o.Key || r.Shared != o.Shared) {
			return false
		}
	}
	return true
}

// Fresh are the rules of now that are not in was, as pointers.
func Fresh(now, was []*rule.Rule) (fresh []*rule.Rule) {
	for len(now) > 0 && len(was) > 0 && now[0] == was[0] {
		now, was = now[1:], was[1:]
	}
	for len(now) > 0 && len(was) > 0 && now[len(now)-1] == was[len(was)-1] {
		now, was = now[:len(now)-1], was[:len(was)-1]
	}
	had := make(map[*rule.Rule]bool, len(was))
	for _, r := range was {
		had[r] = true
	}
	for _, r := range now {
		if !had[r] {
			fresh = append(fresh, r)
		}
	}
	return fresh
}
