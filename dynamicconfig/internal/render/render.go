// SPDX-License-Identifier: Apache-2.0

// Package render writes the fields of a configuration as the YAML of a config file, such that they
// read back as the same.
//
// Out of scope: which fields there are.
package render

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
)

// freeText are the fields that are written in quotes if need be.
var freeText = []string{"key", "description", "author", "reason", "override"}

// Writer writes fields as YAML. The zero Writer is empty.
type Writer struct{ strings.Builder }

// Fields writes each in a line, behind first or next.
func (w *Writer) Fields(first, next string, fields iter.Seq2[string, any]) {
	lead := first
	for name, v := range fields {
		w.WriteString(lead + name + ": ")
		lead = next
		switch v := v.(type) {
		case map[string]string:
			w.WriteString(flowMap(v, name == "parameters"))
		case string:
			if slices.Contains(freeText, name) {
				v = Scalar(v)
			}
			w.WriteString(v)
		case float64:
			w.WriteString(quantity.Number(v))
		default:
			w.WriteString(Value(v))
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
			parts = append(parts, Scalar(name)+": "+Scalar(m[name]))
		} else {
			parts = append(parts, name+": "+m[name])
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Value is a value as YAML, such that it reads back with its type.
func Value(v any) string {
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
		return Scalar(fmt.Sprint(v))
	}
}

// Scalar is text as YAML that reads back as the same text, in double quotes.
// It escapes characters that cannot be seen. text is UTF-8.
func Scalar(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
