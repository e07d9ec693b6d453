// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/compose"
	"github.com/headgate/headgate/dynamicconfig/internal/decode"
	"github.com/headgate/headgate/dynamicconfig/internal/fingerprint"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/overlay"
	"github.com/headgate/headgate/dynamicconfig/internal/remedy"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Snapshot is one whole, valid configuration. Parse and Config make them;
// nothing changes one afterwards, so all methods are safe for concurrent use.
type Snapshot struct {
	origin  origin
	version string
	sums    []uint64 // of the rules, see fingerprint.Of
	content build.Content

	parts []*Snapshot   // of each file, if there are several; they know the places
	read  []decode.Read // the same, for the next time

	stated  *Snapshot // of one in which Overrides hold: as the configuration states it
	overlay overlay.Overlay
}

// snapshotOf is the Snapshot of c, which came from o. p is what is wrong with it: then the Snapshot lacks
// what has a mistake, and there is an error.
func snapshotOf(o origin, p *strictyaml.Problems, c *build.Content) (*Snapshot, error) {
	s := &Snapshot{origin: o, content: *c}
	if err := o.err(p); err != nil {
		return s, err
	}
	s.version, s.sums = fingerprint.Of(c)
	return s, nil
}

// Name is what the configuration was called when it was made, for people.
func (s *Snapshot) Name() string { return s.origin.name }

// Text is what the configuration was parsed from; empty if it was made in code. Of several
// files, it is what YAML returns.
func (s *Snapshot) Text() string {
	if s.parts != nil {
		return string(s.YAML())
	}
	return s.origin.text
}

// YAML is the configuration as a file, with all defaults filled in: Parse of
// it has the same Version. (A value of a service that was made in code as a
// time.Duration becomes text.)
func (s *Snapshot) YAML() []byte { return compose.File(&s.Stated().content) }

// Version is a short fingerprint of what the configuration means. Two
// snapshots with the same Version act alike at the same time, on whichever host; comments,
// layout, Name and the time do not change it.
func (s *Snapshot) Version() string { return s.version }

// Properties are the cluster-wide settings, defaults filled in.
func (s *Snapshot) Properties() Properties { return s.content.Properties }

// Values are the named values of services.
func (s *Snapshot) Values() Values { return Values{s.content.Values} }

// Unmatched says what happens to keys for which Match finds no rule.
func (s *Snapshot) Unmatched() Unmatched { return s.content.Unmatched }

// UnmatchedRule is the rule that Match gives to keys that no other rule
// matches, so that a caller can compare; nil unless Unmatched is UnmatchedRule.
func (s *Snapshot) UnmatchedRule() *Rule { return s.content.UnmatchedRule }

// Rules are copies of the rules that Each gives. Do not change what a Migration points to.
func (s *Snapshot) Rules() []Rule {
	rules := make([]Rule, 0, len(s.content.Rules))
	for r := range s.Each() {
		rules = append(rules, *r)
	}
	return rules
}

// Each gives the rules in the order of the configuration, defaults filled in, without the
// unmatched one. They must not be changed. Of At, they are as Overrides of whole rules make them.
func (s *Snapshot) Each() iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		for i := range s.content.Rules {
			if r := cmp.Or(s.overlay.Rules[i], s.content.Rules[i]); !yield(r) {
				return
			}
		}
	}
}

// Match finds the rule of a key: the one with exactly this key, else the
// first glob in order that matches, else, when Unmatched is UnmatchedRule,
// that rule, whose Key is "*". Without a rule it returns nil and false, and
// Unmatched says what to do. The same rule is the same pointer each time;
// what it points to must not be changed.
//
// A bypassed key (ModeDisabled) is matched like any other.
func (s *Snapshot) Match(key string) (*Rule, bool) {
	if s.overlay.Keyed != nil {
		if r := s.overlay.Keyed[key]; r != nil {
			return r, true
		}
	}
	if i := s.content.Keys.Index.Find(key); i >= 0 {
		return cmp.Or(s.overlay.Rules[i], s.content.Rules[i]), true
	}
	return s.content.UnmatchedRule, s.content.UnmatchedRule != nil
}

// Algorithms are the names of the algorithms that rules use, sorted, each once.
func (s *Snapshot) Algorithms() []string {
	var names []string
	for _, run := range s.content.Runs {
		names = append(names, run.Algorithms()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Check reports each use of an algorithm that known does not know, at its
// place in the text. Parse cannot: which algorithms there are depends on
// what the process has registered.
func (s *Snapshot) Check(known func(name string) bool) error {
	if s.parts != nil {
		return inParts(s.parts, func(part *Snapshot) error { return part.Check(known) })
	}
	p := strictyaml.Problems{Text: s.origin.text}
	for u := range s.content.Uses(build.Unless(known)) {
		if known(u.Algorithm) || rule.CheckNamed(u.Algorithm) != nil { // what is no name at all, Parse has reported
			continue
		}
		where := ""
		if u.At == (build.Mark{}) {
			where = u.Who + ": "
		}
		p.Add(u.At, "%sthere is no algorithm %s here: %s", where, message.Quote(u.Algorithm), remedy.Of(u.Algorithm, known))
	}
	return s.origin.err(&p)
}

// CheckParameters reports the parameters of each rule that its algorithm
// refuses, at their place in the text; refuses is what the algorithm says.
// The algorithm is one that is known, see Check.
func (s *Snapshot) CheckParameters(refuses func(algorithm string, parameters map[string]string) error) error {
	if s.parts != nil {
		return inParts(s.parts, func(part *Snapshot) error { return part.CheckParameters(refuses) })
	}
	p := strictyaml.Problems{Text: s.origin.text}
	for u := range s.content.Uses((*build.Run).HasParameters) {
		if len(u.Parameters) == 0 {
			continue
		}
		if err := refuses(u.Algorithm, maps.Clone(u.Parameters)); err != nil {
			for line := range strings.Lines(err.Error()) { // one for each parameter
				p.Add(u.ParametersAt, "%s: parameters: %s", u.Who, strings.TrimSuffix(line, "\n"))
			}
		}
	}
	return s.origin.err(&p)
}

// inParts joins what check says of each file.
func inParts(parts []*Snapshot, check func(part *Snapshot) error) error {
	var errs []error
	for _, part := range parts {
		errs = append(errs, check(part))
	}
	return errors.Join(errs...)
}

// Shown is key as logs and people may see it, see Rule.Shown. A key without a rule
// is private if the defaults are.
func (s *Snapshot) Shown(key string) string {
	if r, ok := s.Match(key); ok {
		return r.Shown(key)
	}
	if s.content.Private {
		return anyKey.Shown(key)
	}
	return key
}

// anyKey is the rule of a private key that has no rule.
var anyKey = &rule.Rule{Key: "*", Private: true}
