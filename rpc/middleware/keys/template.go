// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Bounds that keep any key below the 1024 bytes that it may have.
const (
	// MaxTemplate is the longest template, in bytes.
	MaxTemplate = 512
	// MaxAttributes is the most attributes of one template.
	MaxAttributes = 8
	// MaxValue is the longest a value may be in a key, escaped, in bytes.
	MaxValue = 96

	maxLiteral = 1024 - MaxAttributes*MaxValue
)

// Source is a request.
type Source interface {
	// Attribute is the value of an attribute; empty if it has none. name is
	// what is between the braces, but `ip` for all of {ip/…}; arg is what
	// follows its colon. Templates only ask for what was given to Parse.
	Attribute(name, arg string) string
}

// Template makes keys. Use Parse. It is safe for concurrent use.
type Template struct {
	parts  []part
	recent recent
}

// part is a literal, or an attribute.
type part struct {
	literal   string
	name, arg string
	bits      [2]int // of an ip's network, for IPv4 and IPv6
}

// Parse reads a template. Its error says what is wrong, for a person.
func Parse(text string) (*Template, error) {
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("key template %.80q: %w", text, err)
	}
	return t, nil
}

func parse(text string) (*Template, error) {
	if text == "" || len(text) > MaxTemplate {
		return nil, fmt.Errorf("it has %d bytes: use 1 to %d", len(text), MaxTemplate)
	}
	t := new(Template)
	var literal strings.Builder
	literals, attributes := 0, 0
	flush := func() {
		if literal.Len() > 0 {
			literals += literal.Len()
			t.parts = append(t.parts, part{literal: literal.String()})
			literal.Reset()
		}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case (c == '{' || c == '}') && i+1 < len(text) && text[i+1] == c:
			literal.WriteByte(c)
			i++
		case c == '}':
			return nil, errors.New("it has a } without a {: write }} for the byte itself")
		case c == '{':
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return nil, errors.New("it has a { that is never closed: write {{ for the byte itself")
			}
			p, err := attribute(text[i+1 : i+end])
			if err != nil {
				return nil, err
			}
			// Two without anything between them could be cut in two ways.
			if literal.Len() == 0 && attributes > 0 {
				return nil, fmt.Errorf("nothing is between {%s} and the attribute before it: put a : there", text[i+1:i+end])
			}
			flush()
			t.parts = append(t.parts, p)
			attributes++
			i += end
		default:
			literal.WriteByte(c)
		}
	}
	flush()
	switch {
	case attributes > MaxAttributes:
		return nil, fmt.Errorf("it has %d attributes: use at most %d", attributes, MaxAttributes)
	case literals > maxLiteral:
		return nil, fmt.Errorf("it has %d bytes beside attributes: use at most %d", literals, maxLiteral)
	}
	return t, t.checkSeparators()
}

// checkSeparators wants a byte that no value has between two attributes.
func (t *Template) checkSeparators() error {
	for i := 1; i+1 < len(t.parts); i++ {
		if p := t.parts[i]; p.name == "" && !slices.ContainsFunc([]byte(p.literal), separates) {
			return fmt.Errorf("%q between two attributes could be a part of them: use a : there", p.literal)
		}
	}
	return nil
}

// separates reports whether no value has c in a key. An escaped one has %, and
// one that was cut ~.
func separates(c byte) bool { return !plain(c) && c != '%' && c != '~' }

// attribute reads what is between braces.
func attribute(text string) (part, error) {
	name, arg, hasArg := strings.Cut(text, ":")
	switch {
	case name == "header" && arg != "" && strings.Trim(arg, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == "":
		return part{name: name, arg: arg}, nil
	case name == "header":
		return part{}, fmt.Errorf("{%s} names no header: write {header:X-Name}", text)
	case hasArg && (name == "user" || name == "method" || name == "path" || name == "route" || strings.HasPrefix(name, "ip")):
		return part{}, fmt.Errorf("{%s} takes nothing after a colon", text)
	case name == "method" || name == "path" || name == "route" || name == "user":
		return part{name: name}, nil
	}
	ip, network, isNetwork := strings.Cut(name, "/")
	if ip != "ip" {
		return part{}, fmt.Errorf("there is no attribute {%s}: use {method}, {path}, {route}, {header:NAME}, {ip}, {ip/24} or {user}", text)
	}
	p := part{name: ip, bits: [2]int{32, 128}}
	if !isNetwork {
		return p, nil
	}
	four, six, both := strings.Cut(network, ",")
	if !both {
		six = "64"
	}
	for i, bits := range []string{four, six} {
		n, err := strconv.Atoi(bits)
		if err != nil || n < 1 || n > p.bits[i] {
			return part{}, fmt.Errorf("{%s} is no network: write {ip/24}, or {ip/24,64} for IPv4 and IPv6", text)
		}
		p.bits[i] = n
	}
	return p, nil
}

// Key is the key of a request: 1 to 1024 bytes, all of them ASCII beside what
// the template itself has. It is empty only if the template is one attribute
// which the request has not.
func (t *Template) Key(of Source) string {
	b := make([]byte, 0, 128)
	for _, p := range t.parts {
		switch p.name {
		case "":
			b = append(b, p.literal...)
		case "ip":
			b = appendValue(b, p.network(of.Attribute("ip", "")))
		default:
			b = appendValue(b, of.Attribute(p.name, p.arg))
		}
	}
	return t.recent.text(b)
}

// Uses reports whether t has an attribute of that name, such as `ip` for all of
// {ip/…}.
func (t *Template) Uses(name string) bool {
	return slices.ContainsFunc(t.parts, func(p part) bool { return name != "" && p.name == name })
}

// network is the network of an address; what is none stays as it is.
func (p part) network(text string) string {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return text
	}
	a = a.Unmap().WithZone("")
	bits := p.bits[0]
	if a.Is6() {
		bits = p.bits[1]
	}
	n, err := a.Prefix(bits)
	if err != nil {
		return text
	}
	return n.Addr().String()
}

// appendValue escapes v, and cuts it if it is too long.
func appendValue(b []byte, v string) []byte {
	begin := len(b)
	for i := 0; i < len(v); i++ {
		if c := v[i]; plain(c) {
			b = append(b, c)
		} else {
			const digits = "0123456789ABCDEF"
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
		if len(b)-begin > MaxValue {
			const hashed = 16 // bytes of the hash, two characters each
			sum := sha256.Sum256([]byte(v))
			b = append(b[:begin+MaxValue-2*hashed-1], '~')
			return hex.AppendEncode(b, sum[:hashed])
		}
	}
	return b
}

// plain bytes stand for themselves in a value. None has a meaning in keys or
// globs, and none is the mark of a cut.
func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("._-/@+=", c) >= 0
}
