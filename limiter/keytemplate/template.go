// SPDX-License-Identifier: Apache-2.0

package keytemplate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxKey is the longest key, in bytes.
	MaxKey = 1024

	maxValue = 64 // bytes of one value in a key
	maxName  = 64
)

var (
	// ErrMissing is returned for a request without an attribute that the
	// template needs.
	ErrMissing = errors.New("the request has no such attribute")

	// ErrNoAddress is returned for a value that is no IP address where the
	// template wants one.
	ErrNoAddress = errors.New("the value is no IP address")
)

// Template makes keys. It is safe for concurrent use.
type Template struct {
	text  string
	parts []part
}

// part is literal text, and the attribute behind it.
type part struct {
	literal  string
	name     string // empty in the last part, if literal text is last
	optional bool
	address  bool
	bits     [2]int // of the network: of IPv4 and IPv6
}

// Parse reads a template. Its error says what to change.
func Parse(text string) (*Template, error) {
	t := &Template{text: text}
	most := 0
	for rest := text; rest != ""; {
		literal, inside, found := strings.Cut(rest, "{")
		if err := checkLiteral(literal); err != nil {
			return nil, fmt.Errorf("key template %q: %w", text, err)
		}
		p := part{literal: literal}
		most += len(literal)
		rest = ""
		if found {
			name, after, closed := strings.Cut(inside, "}")
			if !closed {
				return nil, fmt.Errorf("key template %q: a { has no }: close it", text)
			}
			if !strings.Contains(literal, ":") {
				return nil, fmt.Errorf("key template %q: there is no : before {%s}: without one, a value could make another key", text, name)
			}
			if err := p.attribute(name); err != nil {
				return nil, fmt.Errorf("key template %q: {%s}: %w", text, name, err)
			}
			most += maxValue
			rest = after
		}
		t.parts = append(t.parts, p)
	}
	switch {
	case text == "":
		return nil, errors.New("key template: it is empty: write one, as in login:{ip/24}")
	case most > MaxKey:
		return nil, fmt.Errorf("key template %q: its keys may have %d bytes: at most %d are possible, and %d for each attribute", text, most, MaxKey, maxValue)
	}
	return t, nil
}

func checkLiteral(s string) error {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '%' || c == '}' {
			return fmt.Errorf("%q cannot stand in it", s[i:i+1])
		}
	}
	return nil
}

// attribute reads what stands in braces.
func (p *part) attribute(text string) error {
	text, p.optional = strings.CutSuffix(text, "?")
	name, network, has := strings.Cut(text, "/")
	p.name, p.address = name, has || name == "ip"
	p.bits = [2]int{32, 128}
	if name == "" || len(name) > maxName {
		return fmt.Errorf("the name has %d bytes: use 1 to %d", len(name), maxName)
	}
	for i := range len(name) {
		if !inName(name[i]) {
			return fmt.Errorf("%q cannot stand in a name: use a to z, 0 to 9, and . _ -", name[i:i+1])
		}
	}
	if !has {
		return nil
	}
	four, six, both := strings.Cut(network, ",")
	if !both {
		six = "64"
	}
	for i, s := range []string{four, six} {
		n, err := strconv.Atoi(s)
		if most := p.bits[i]; err != nil || n < 1 || n > most || strconv.Itoa(n) != s {
			return fmt.Errorf("%q is not the bits of a network: use 1 to 32 for IPv4 and 1 to 128 for IPv6, as in /24 or /24,48", s)
		}
		p.bits[i] = n
	}
	return nil
}

func inName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("._-", c) >= 0
}

// String is what Parse read.
func (t *Template) String() string { return t.text }

// Names are the attributes that keys are made of, sorted, each once.
func (t *Template) Names() []string {
	var names []string
	for _, p := range t.parts {
		if p.name != "" {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
