// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"iter"

	"github.com/headgate/headgate/dynamicconfig/internal/render"
)

// YAML is the configuration as a file, with all defaults filled in: Parse of
// it has the same Version. (A value of a service that was made in code as a
// time.Duration becomes text.)
func (s *Snapshot) YAML() []byte {
	s = s.Stated()
	w := new(render.Writer)
	w.WriteString("defaults:\n")
	w.Fields("  ", "  ", defaultFields(s))
	if len(s.content.Rules) == 0 {
		w.WriteString("limits: []\n")
	} else {
		w.WriteString("limits:\n")
	}
	for i := range s.content.Rules {
		w.Fields("  - ", "    ", s.fieldsOf(&s.content.Rules[i]))
	}
	if u := s.content.UnmatchedRule; u != nil {
		w.WriteString("unmatched:\n")
		w.Fields("  ", "  ", withoutKey(s.fieldsOf(u)))
	} else {
		fmt.Fprintf(w, "unmatched: %s\n", s.content.Unmatched)
	}
	if len(s.content.Overrides) > 0 {
		w.Write(OverridesYAML(s.content.Overrides))
	}
	if names := s.Values().Names(); len(names) > 0 {
		w.WriteString("properties:\n")
		for _, name := range names {
			v, _ := s.Values().Lookup(name)
			fmt.Fprintf(w, "  %s: %s\n", render.Scalar(name), render.Value(v))
		}
	}
	return []byte(w.String())
}

// fieldsOf are r's fields as a file has them below the defaults of s: a rule for one exact key is
// private by the defaults alone, and one that is not private says so where the defaults are.
func (s *Snapshot) fieldsOf(r *Rule) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for name, v := range r.Fields() {
			if (name != "private" || r.IsGlob()) && !yield(name, v) {
				return
			}
		}
		if s.content.Private && !r.Private {
			yield("private", false)
		}
	}
}

// OverridesYAML is the section of a config file that has these overrides.
func OverridesYAML(overrides []Override) []byte {
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

func withoutKey(fields iter.Seq2[string, any]) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for name, v := range fields {
			if name != "key" && !yield(name, v) {
				return
			}
		}
	}
}
