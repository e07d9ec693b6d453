// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"maps"
	"slices"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Config is a configuration made in code. It is checked as strictly as a
// file is. In all of it, zero fields mean the default.
type Config struct {
	// Name is for error messages and people.
	Name string

	// Properties are the cluster-wide settings.
	Properties Properties

	// Defaults are for the fields that rules leave zero: Algorithm or
	// Migration, Parameters, Fallback, SafeCapacity, Lease, IdleAfter,
	// MaxKeys, Private, Refresh, Learning, Recalculate, Overcommit, Priority,
	// Priorities, OneBand, Parent, MaxWait, MaxDebt, Enforce and AskTimeout. The
	// other fields must be zero. A rule cannot choose what is zero (FallbackEven, no Overcommit, Priority
	// 0, no Parent) where Defaults has something else.
	Defaults Rule

	// Rules are the limits. Exact keys win over globs; of globs the first
	// that matches wins.
	Rules []Rule

	// Unmatched says what happens to other keys; UnmatchedAllow by default.
	Unmatched Unmatched

	// UnmatchedRule is their rule when Unmatched is UnmatchedRule, and nil
	// otherwise. Its Key is empty or "*".
	UnmatchedRule *Rule

	// Overrides change limits for a time.
	Overrides []Override

	// Values are named settings of services; each is a string, bool, int,
	// int64, float64 or time.Duration.
	Values map[string]any
}

// Snapshot checks c, fills in defaults and compiles the keys. Its error
// joins an *Error for each problem, which names the rule. The Snapshot
// shares nothing with c.
func (c Config) Snapshot() (*Snapshot, error) {
	problems := new(strictyaml.Problems)
	b := build.New(problems)
	b.Properties(c.Properties, nil)
	b.Defaults(build.Stated("defaults", c.Defaults))
	for i, r := range c.Rules {
		who := "rule " + message.Quote(r.Key)
		if r.Key == "" {
			who = fmt.Sprintf("rule number %d", i+1)
		}
		e := build.Stated(who, r)
		e.State("key", build.Mark{})
		e.State("limit", build.Mark{})
		b.Rule(e)
	}
	switch {
	case c.Unmatched > UnmatchedRule:
		problems.Add(build.Mark{}, "unmatched: there is no %v: use %s", c.Unmatched, message.OneOf(rule.UnmatchedNames()))
	case c.Unmatched == UnmatchedRule && c.UnmatchedRule == nil:
		problems.Add(build.Mark{}, "unmatched: UnmatchedRule is nil: set it, or choose UnmatchedAllow or UnmatchedDeny")
	case c.Unmatched != UnmatchedRule && c.UnmatchedRule != nil:
		problems.Add(build.Mark{}, "unmatched: UnmatchedRule is set but Unmatched is %v: set Unmatched to UnmatchedRule", c.Unmatched)
	case c.Unmatched == UnmatchedRule:
		r := *c.UnmatchedRule
		if r.Key != "" && r.Key != "*" {
			problems.Add(build.Mark{}, "unmatched: its rule has the key %s: leave it empty", message.Quote(r.Key))
		}
		e := build.Stated("unmatched", r)
		e.State("limit", build.Mark{})
		b.UnmatchedRule(e)
	default:
		b.Unmatched(c.Unmatched)
	}
	for i := range c.Overrides {
		b.Override(&build.Override{Override: c.Overrides[i], Who: fmt.Sprintf("override number %d", i+1), Stated: map[string]build.Mark{"limit": {}}})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		b.Value(name, c.Values[name], build.Mark{})
	}
	s, err := snapshotOf(origin{name: c.Name}, problems, b.Finish())
	if err != nil {
		return nil, err
	}
	return s, nil
}
