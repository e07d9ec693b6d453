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
	w.Fields("  ", "  ", s.properties.Fields())
	if len(s.rules) == 0 {
		w.WriteString("limits: []\n")
	} else {
		w.WriteString("limits:\n")
	}
	for i := range s.rules {
		w.Fields("  - ", "    ", s.rules[i].Fields())
	}
	if u := s.unmatchedRule; u != nil {
		w.WriteString("unmatched:\n")
		w.Fields("  ", "  ", withoutKey(u.Fields()))
	} else {
		fmt.Fprintf(w, "unmatched: %s\n", s.unmatched)
	}
	if len(s.overrides) > 0 {
		w.Write(OverridesYAML(s.overrides))
	}
	if names := s.values.Names(); len(names) > 0 {
		w.WriteString("properties:\n")
		for _, name := range names {
			v, _ := s.values.Lookup(name)
			fmt.Fprintf(w, "  %s: %s\n", render.Scalar(name), render.Value(v))
		}
	}
	return []byte(w.String())
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
