// SPDX-License-Identifier: Apache-2.0

// Package compose writes a configuration as the file that states it. It does not know the file
// that it came from.
package compose

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/render"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// File is c as a file, with all defaults filled in.
func File(c *build.Content) []byte {
	w := new(render.Writer)
	w.WriteString("defaults:\n")
	w.Fields("  ", "  ", Defaults(c))
	if len(c.Rules) == 0 {
		w.WriteString("limits: []\n")
	} else {
		w.WriteString("limits:\n")
	}
	for _, r := range c.Rules {
		w.Fields("  - ", "    ", fieldsOf(c, r))
	}
	if u := c.UnmatchedRule; u != nil {
		w.WriteString("unmatched:\n")
		w.Fields("  ", "  ", withoutKey(fieldsOf(c, u)))
	} else {
		fmt.Fprintf(w, "unmatched: %s\n", c.Unmatched)
	}
	if len(c.Overrides) > 0 {
		w.Write(Overrides(c.Overrides))
	}
	if names := slices.Sorted(maps.Keys(c.Values)); len(names) > 0 {
		w.WriteString("properties:\n")
		for _, name := range names {
			fmt.Fprintf(w, "  %s: %s\n", render.Scalar(name), render.Value(c.Values[name].V))
		}
	}
	return []byte(w.String())
}

// fieldsOf are r's fields as a file has them below the defaults of c: a rule for one exact key is
// private by the defaults alone, and one that is not private says so where the defaults are.
func fieldsOf(c *build.Content, r *rule.Rule) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for name, v := range r.Fields() {
			if (name != "private" || r.IsGlob()) && !yield(name, v) {
				return
			}
		}
		if c.Private && !r.Private {
			yield("private", false)
		}
	}
}

// Overrides is the section of a file that has these overrides.
func Overrides(overrides []rule.Override) []byte {
	if len(overrides) == 0 {
		return []byte("overrides: []\n")
	}
	w := new(render.Writer)
	w.WriteString("overrides:\n")
	for i := range overrides {
		w.Fields("  - ", "    ", overrides[i].Fields())
	}
	return []byte(w.String())
}

// Defaults are the cluster's own settings, and whether keys without a rule are private: rules
// have the other defaults themselves.
func Defaults(c *build.Content) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for name, v := range c.Properties.Fields() {
			if !yield(name, v) {
				return
			}
		}
		if c.Private {
			yield("private", true)
		}
	}
}

// Unmatched are what happens to unmatched keys, as "action", and their
// rule's fields, if they have one.
func Unmatched(c *build.Content) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		if yield("action", c.Unmatched.String()) && c.UnmatchedRule != nil {
			withoutKey(c.UnmatchedRule.Fields())(yield)
		}
	}
}

func withoutKey(fields iter.Seq2[string, any]) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for name, v := range fields {
			if name != "key" && !yield(name, v) {
				return
			}
		}
	}
}
