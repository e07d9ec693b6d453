// SPDX-License-Identifier: Apache-2.0

// Package accesslog reads the access logs of web servers and proxies, a line at
// a time:
//
//	parse, err := accesslog.Lookup("combined")
//	key, err := parse.Template("{method} {ip}")
//	record, err := parse.Line(line)
//	record.At, key.Of(record) // when the request came, and "GET 10.1.2.3"
//
// The formats are combined (Apache, nginx; the shorter common one too), envoy
// (its default), alb (AWS load balancers) and json (an object per line). Out of
// scope: opening files, and what requests mean.
package accesslog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Record is one request. It is valid until the parser reads the next line.
type Record struct {
	At    time.Time
	field func(name string) (string, bool)
}

// Field returns a field of the request, as a template names it; false if the
// line does not have it.
func (r Record) Field(name string) (string, bool) {
	v, ok := r.field(name)
	return v, ok && v != "" && v != "-"
}

// Format reads lines of one format.
type Format struct {
	name  string
	known []string // fields; nil: a line says
	line  func(line string) (Record, error)
}

// formats by name.
var formats = map[string]Format{
	"combined": {"combined", []string{"ip", "user", "method", "path", "uri", "protocol", "status", "bytes", "header:referer", "header:user-agent"}, combined},
	"envoy":    {"envoy", []string{"ip", "method", "path", "uri", "protocol", "status", "bytes", "header:user-agent", "header:x-forwarded-for", "header:x-request-id", "header:authority", "upstream"}, envoy},
	"alb":      {"alb", []string{"ip", "method", "path", "uri", "protocol", "status", "bytes", "header:user-agent", "upstream"}, alb},
	"json":     {"json", nil, jsonLine},
}

// Guess returns the name of a format that a line may have; "" if there is none.
func Guess(line string) string {
	if strings.HasPrefix(line, "{") {
		return "json"
	}
	for _, name := range slices.Sorted(maps.Keys(formats)) {
		if _, err := formats[name].Line(line); err == nil {
			return name
		}
	}
	return ""
}

// Lookup returns the format of that name.
func Lookup(name string) (Format, error) {
	f, ok := formats[name]
	if !ok {
		return f, fmt.Errorf("there is no format %q: use %s", name, strings.Join(slices.Sorted(maps.Keys(formats)), ", "))
	}
	return f, nil
}

// Line reads one line, without its end.
func (f Format) Line(line string) (Record, error) { return f.line(line) }

// Template is text with fields of a request in braces.
type Template struct{ parts []part }

// part is text, or the name of a field.
type part struct {
	text  string
	field bool
}

// Template reads a template, such as "{ip}" or "{method} {path}". Headers are
// written {header:user-agent}; of json, any name of the line's object is a field.
func (f Format) Template(text string) (Template, error) {
	var t Template
	for rest := text; rest != ""; {
		before, after, ok := strings.Cut(rest, "{")
		if before != "" {
			t.parts = append(t.parts, part{before, false})
		}
		if !ok {
			break
		}
		name, end, ok := strings.Cut(after, "}")
		if !ok || name == "" {
			return Template{}, fmt.Errorf("%q: a { has no name and } after it: write a field as {ip}", text)
		}
		if header, ok := strings.CutPrefix(name, "header:"); ok {
			name = "header:" + strings.ToLower(header)
		}
		if f.known != nil && !slices.Contains(f.known, name) {
			return Template{}, fmt.Errorf("%q: the format %s has no field %q: known are {%s}", text, f.name, name, strings.Join(f.known, "}, {"))
		}
		t.parts = append(t.parts, part{name, true})
		rest = end
	}
	if len(t.parts) == 0 {
		return Template{}, fmt.Errorf("the template is empty: write fields, as in {ip}, or a word for all requests together")
	}
	return t, nil
}

// Fits reports whether a request has all fields of the template.
func (t Template) Fits(r Record) bool {
	for _, p := range t.parts {
		if p.field {
			if _, ok := r.Field(p.text); !ok {
				return false
			}
		}
	}
	return true
}

// Of is the template with the fields of a request. A field that the request does
// not have becomes "-".
func (t Template) Of(r Record) string {
	var b strings.Builder
	for _, p := range t.parts {
		text := p.text
		if p.field {
			var ok bool
			if text, ok = r.Field(p.text); !ok {
				text = "-"
			}
		}
		b.WriteString(text)
	}
	return b.String()
}
