// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// YAML is the configuration as a file, with all defaults filled in: Parse of
// it has the same Version. (A value of a service that was made in code as a
// time.Duration becomes text.)
func (s *Snapshot) YAML() []byte {
	s = s.Stated()
	w := new(yamlWriter)
	w.WriteString("defaults:\n")
	w.fields("  ", "  ", s.properties.Fields())
	if len(s.rules) == 0 {
		w.WriteString("limits: []\n")
	} else {
		w.WriteString("limits:\n")
	}
	for i := range s.rules {
		w.fields("  - ", "    ", s.rules[i].Fields())
	}
	if u := s.unmatchedRule; u != nil {
		w.WriteString("unmatched:\n")
		w.fields("  ", "  ", withoutKey(u.Fields()))
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
			fmt.Fprintf(w, "  %s: %s\n", strictyaml.Scalar(name), anyYAML(v))
		}
	}
	return []byte(w.String())
}

// YAML is r as a file writes it in the list of limits, each line behind
// indent.
func (r *Rule) YAML(indent string) []byte {
	w := new(yamlWriter)
	w.fields(indent, indent, r.Fields())
	return []byte(w.String())
}

// OverridesYAML is the section of a config file that has these overrides.
func OverridesYAML(overrides []Override) []byte {
	if len(overrides) == 0 {
		return []byte("overrides: []\n")
	}
	w := new(yamlWriter)
	w.WriteString("overrides:\n")
	for i := range overrides {
		w.fields("  - ", "    ", overrides[i].Fields())
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

// freeText are the fields that are written in quotes if need be.
var freeText = []string{"key", "description", "author", "reason", "override"}

// yamlWriter writes fields as YAML.
type yamlWriter struct{ strings.Builder }

// fields writes each in a line, behind first or next.
func (w *yamlWriter) fields(first, next string, fields iter.Seq2[string, any]) {
	lead := first
	for name, v := range fields {
		w.WriteString(lead + name + ": ")
		lead = next
		switch v := v.(type) {
		case map[string]string:
			w.WriteString(flowMap(v, name == "parameters"))
		case string:
			if slices.Contains(freeText, name) {
				v = strictyaml.Scalar(v)
			}
			w.WriteString(v)
		case float64:
			w.WriteString(quantity.Number(v))
		default:
			w.WriteString(anyYAML(v))
		}
		w.WriteByte('\n')
	}
}

// flowMap writes m in braces; free is whether its text is anything, and not
// the words of a config file.
func flowMap(m map[string]string, free bool) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if free {
			parts = append(parts, strictyaml.Scalar(name)+": "+strictyaml.Scalar(m[name]))
		} else {
			parts = append(parts, name+": "+m[name])
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// anyYAML writes a value such that it reads back with its type.
func anyYAML(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		s := quantity.Number(v)
		if !strings.ContainsAny(s, ".e") {
			s += ".0" // else it would be read as a whole number
		}
		return s
	default:
		return strictyaml.Scalar(fmt.Sprint(v))
	}
}
