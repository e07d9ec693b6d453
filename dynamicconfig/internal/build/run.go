// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"sync"

	"github.com/headgate/headgate/dynamicconfig/internal/glob"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Run is some rules in a row. Contents of texts that follow each other share the Runs that did not change, wherever
// these stand: under the same defaults, the same text means the same. A Run without mistakes does not change after
// the Builder has finished.
type Run struct {
	Text  string // what was read; nothing of the Run refers to a longer text. Empty if the rules were not read in Runs
	Rules []rule.Rule

	// Meaning and Sums are set by package fingerprint, before others see the Run.
	Meaning []byte
	Sums    []uint64

	places     []Mark       // of the rules' keys
	globs      []*glob.Glob // of the rules' keys; nil for an exact key
	uses       []use
	algorithms []string // of uses, each once
	parameters bool     // uses have some

	once  sync.Once // guards what follows
	notes []note
}

// use is a Use whose places are those of a Run, unless they stand in the defaults.
type use struct {
	Use

	inDefaults, parametersInDefaults bool
}

// note is what is legal in a rule of a Run, and surely not meant.
type note struct {
	rule int
	text string
}

// Placed is a Run at a place in a text, whose lines count from Line on.
type Placed struct {
	*Run

	Line int // of the line before it
}

// down moves a place of a Run to where the Run stands.
func (p Placed) down(m Mark) Mark {
	if m.Line != 0 {
		m.Line += p.Line
	}
	return m
}

// Uses are the mentions of algorithms.
func (p Placed) Uses() iter.Seq[Use] {
	return func(yield func(Use) bool) {
		for _, u := range p.uses {
			if !u.inDefaults {
				u.At = p.down(u.At)
			}
			if !u.parametersInDefaults {
				u.ParametersAt = p.down(u.ParametersAt)
			}
			if !yield(u.Use) {
				return
			}
		}
	}
}

// Algorithms are those of Uses, each once. They must not be changed.
func (r *Run) Algorithms() []string { return r.algorithms }

// HasParameters reports whether Uses have parameters.
func (r *Run) HasParameters() bool { return r.parameters }

// Unless reports of Runs whether they name an algorithm that is not known.
func Unless(known func(algorithm string) bool) func(*Run) bool {
	asked := make(map[string]bool)
	return func(r *Run) bool {
		return slices.ContainsFunc(r.algorithms, func(name string) bool {
			if _, already := asked[name]; !already {
				asked[name] = known(name)
			}
			return !asked[name]
		})
	}
}

// Uses are those of all Runs for which in returns true.
func (c *Content) Uses(in func(*Run) bool) iter.Seq[Use] {
	return func(yield func(Use) bool) {
		for _, p := range c.Runs {
			if !in(p.Run) {
				continue
			}
			for u := range p.Uses() {
				if !yield(u) {
					return
				}
			}
		}
	}
}

// Notes calls f with what is legal in a rule and surely not meant, in the order of the rules: the rule's number, and
// what it is. hidden has what hides a rule, by the number of the rule in a whole where first rules stand before c.
func (c *Content) Notes(hidden map[int]string, first int, f func(number int, text string)) {
	begin := 0
	for _, p := range c.Runs {
		p.once.Do(p.note)
		notes := p.notes
		for i := range p.Rules {
			if len(hidden) == 0 && len(notes) == 0 {
				break
			}
			key := p.Rules[i].Key
			if by, ok := hidden[first+begin+i]; ok && by != key { // of two rules with one key, the Builder says more
				f(begin+i, fmt.Sprintf("rule %[1]s is never used: %[2]s stands before it and matches all of its keys: move %[1]s above %[2]s, or remove it", message.Quote(key), message.Quote(by)))
			}
			for ; len(notes) > 0 && notes[0].rule == i; notes = notes[1:] {
				f(begin+i, notes[0].text)
			}
		}
		begin += len(p.Rules)
	}
}

// note finds the notes.
func (r *Run) note() {
	for i := range r.Rules {
		of := &r.Rules[i]
		if strange := glob.Strange(of.Key); strange != "" {
			r.notes = append(r.notes, note{i, "rule " + message.Quote(of.Key) + ": key: " + strange})
		}
		if text := TooCostly(of); text != "" {
			r.notes = append(r.notes, note{i, "rule " + message.Quote(of.Key) + ": " + text})
		}
	}
}

// runs gather the Runs of a Content.
type runs struct {
	content *Content
	run     *Run     // that has begun
	line    int      // of the line before it
	before  *Content // which may have the same keys; nil without one
	late    bool     // keys are compared by Finish
}

// Follows reports whether Runs of before, which may be nil, mean the same below the defaults that were taken. The
// Builder then takes such Runs with Reuse, and compares keys at the end only: if the Content has a mistake, it must be
// made again without before.
func (b *runs) Follows(before *Content) bool {
	c := b.content
	if before == nil || c.base == nil || before.Properties != c.Properties || !reflect.DeepEqual(before.base, c.base) {
		return false
	}
	b.After(before)
	return true
}

// After has Finish compare the keys of rules, and find rules by what finds those of before if these have the same keys.
// before may be nil.
func (b *runs) After(before *Content) { b.before, b.late = before, true }

// Begin has the rules up to End be a Run of text, which stands below that line. There are about most rules in it.
func (b *runs) Begin(text string, line, most int) {
	b.End()
	b.run = &Run{
		Text: text, Rules: make([]rule.Rule, 0, most), places: make([]Mark, 0, most), globs: make([]*glob.Glob, 0, most), uses: make([]use, 0, most),
	}
	b.line = line
}

// Reuse takes all rules of r, whose text stands below that line. It is for a Builder that Follows.
func (b *runs) Reuse(r *Run, line int) {
	b.End()
	b.take(Placed{r, line})
}

// End takes the Run that has begun.
func (b *runs) End() {
	r := b.run
	up := func(m *Mark) {
		if m.Line != 0 {
			m.Line -= b.line
		}
	}
	for i := range r.places {
		up(&r.places[i])
	}
	for i := range r.uses {
		u := &r.uses[i]
		if !u.inDefaults {
			up(&u.At)
		}
		if !u.parametersInDefaults {
			up(&u.ParametersAt)
		}
		if !slices.Contains(r.algorithms, u.Algorithm) {
			r.algorithms = append(r.algorithms, u.Algorithm)
		}
		r.parameters = r.parameters || len(u.Parameters) > 0
	}
	if len(r.Rules) > 0 || len(r.uses) > 0 {
		b.take(Placed{r, b.line})
	}
	b.run, b.line = new(Run), 0
}

func (b *runs) take(p Placed) {
	b.content.Runs = append(b.content.Runs, p)
	for i := range p.Rules {
		b.content.Rules = append(b.content.Rules, &p.Rules[i])
		b.content.Places = append(b.content.Places, p.down(p.places[i]))
	}
}
