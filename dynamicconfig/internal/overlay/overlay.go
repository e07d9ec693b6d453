// SPDX-License-Identifier: Apache-2.0

// Package overlay puts the overrides that hold over what a configuration states. It does not
// know the time: its caller says which hold.
package overlay

import (
	"slices"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/glob"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Overlay is what overrides that hold make of rules. The zero Overlay is of a configuration as
// it is stated.
type Overlay struct {
	Holds []int                 // which overrides, by their number
	Rules map[int]*rule.Rule    // by their number
	Keyed map[string]*rule.Rule // of single keys
}

// Of returns the Overlay of c with the overrides that hold, by their number, and c as they
// make it: the rule of keys that no other matches, and what happens to these, may be others.
func Of(c build.Content, holds []int) (Overlay, build.Content) {
	stated := c
	holds = slices.Clone(holds)
	slices.SortStableFunc(holds, func(i, j int) int { // a bypass of the same key or rule counts, so it comes last
		switch a, b := c.Overrides[i].Bypass, c.Overrides[j].Bypass; {
		case a == b:
			return 0
		case a:
			return 1
		}
		return -1
	})
	o := Overlay{Holds: holds, Rules: make(map[int]*rule.Rule), Keyed: make(map[string]*rule.Rule)}
	for _, i := range holds {
		if by := &c.Overrides[i]; by.All {
			o.all(&c, &stated, by)
		}
	}
	var keys []Target
	of := make(map[int]*rule.Override)
	for _, i := range holds {
		by := &c.Overrides[i]
		switch t := TargetOf(&stated, by); {
		case t.All || t.Idle != "":
		case t.Key:
			keys = append(keys, t)
			of[len(keys)-1] = by
		case t.Number < 0:
			c.UnmatchedRule = by.On(t.Rule)
		default:
			o.Rules[t.Number] = by.On(t.Rule)
		}
	}
	for i, t := range keys {
		r := of[i].On(t.Rule)
		r.Shared = false // the key is let through by itself
		o.Keyed[t.Text] = r
	}
	return o, c
}

// all puts all rules of stated under by, and changes in c what happens to other keys.
func (o *Overlay) all(c, stated *build.Content, by *rule.Override) {
	for i, r := range c.Rules {
		if by.Unfit(r) == "" {
			o.Rules[i] = by.On(r)
		}
	}
	switch {
	case stated.UnmatchedRule != nil && by.Unfit(stated.UnmatchedRule) == "":
		c.UnmatchedRule = by.On(stated.UnmatchedRule)
	case by.Bypass && c.Unmatched == rule.UnmatchedDeny:
		c.Unmatched = rule.UnmatchedAllow
	}
}

// Target is what an Override is for.
type Target struct {
	All    bool
	Number int        // of the rule in the list, -1 for the unmatched one
	Key    bool       // the Override is for one key of the rule
	Rule   *rule.Rule // nil with all
	Text   string
	Idle   string // why there is none
}

// TargetOf finds what o, an Override of c, is for.
func TargetOf(c *build.Content, o *rule.Override) Target {
	if o.All {
		return Target{All: true}
	}
	g, err := glob.Compile(o.Key)
	if err != nil {
		return Target{Idle: err.Error()} // the builder has refused it
	}
	t := Target{Number: -1}
	if g.Exact() {
		t.Text = g.Prefix()
		t.Number = c.Keys.Index.Find(t.Text)
		t.Key = t.Number < 0 || c.Rules[t.Number].IsGlob() && (!c.Rules[t.Number].Shared || c.Rules[t.Number].Key != t.Text)
	} else {
		if i, ok := c.Keys.Patterns[o.Key]; ok {
			t.Number = i
		} else if o.Key != "*" || c.UnmatchedRule == nil {
			return Target{Idle: "no rule has this pattern: name the pattern of a rule, or one key"}
		}
	}
	switch {
	case t.Number >= 0:
		t.Rule = c.Rules[t.Number]
	case c.UnmatchedRule != nil:
		t.Rule = c.UnmatchedRule
	default:
		return Target{Idle: "no rule matches this key: name the pattern of a rule, or a key of one"}
	}
	if t.Key && t.Rule.Shared && !o.Bypass {
		t.Idle = "all keys of " + message.Quote(t.Rule.Key) + " have one bucket: override that, or bypass this key"
		return t
	}
	t.Idle = o.Unfit(t.Rule)
	return t
}
