// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"errors"
	"fmt"
	"strings"
)

// Glob is a compiled pattern, which does not change: segments that stood between stars. With one
// segment the whole key must match it; else the first is anchored at the
// key's start, the last at its end, and each one between is taken at the
// leftmost place after its predecessor, which is right for globs and needs
// no backtracking. A key of n bytes costs O(n) for literal segments and at
// most n × (segment's length) for those with `?` or classes.
type Glob struct {
	segments []segment
}

// segment matches exactly n bytes: those of literal, or one of each set.
type segment struct {
	n       int
	literal string
	sets    []byteSet // nil when the segment is all literal
}

// byteSet has bit b%64 of word b/64 set for each byte b in it.
type byteSet [4]uint64

func (s *byteSet) add(b byte)      { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) has(b byte) bool { return s[b>>6]&(1<<(b&63)) != 0 }

// Exact reports whether only one key can match.
func (g *Glob) Exact() bool { return len(g.segments) == 1 && g.segments[0].sets == nil }

// Prefix is what each matching key begins with.
func (g *Glob) Prefix() string {
	first := &g.segments[0]
	return first.literal // up to its first set, see Compile
}

// Match reports whether the whole key matches.
func (g *Glob) Match(key string) bool {
	first := &g.segments[0]
	if len(g.segments) == 1 {
		return len(key) == first.n && first.at(key)
	}
	if len(key) < first.n || !first.at(key) {
		return false
	}
	key = key[first.n:]
	last := len(g.segments) - 1
	for i := 1; i < last; i++ {
		s := &g.segments[i]
		at := s.index(key)
		if at < 0 {
			return false
		}
		key = key[at+s.n:]
	}
	end := &g.segments[last]
	return len(key) >= end.n && end.at(key[len(key)-end.n:])
}

// at reports whether key, which has at least n bytes, begins with s.
func (s *segment) at(key string) bool {
	if s.sets == nil {
		return key[:s.n] == s.literal
	}
	for i := range s.sets {
		if !s.sets[i].has(key[i]) {
			return false
		}
	}
	return true
}

// index is the first place in key where s begins, or -1.
func (s *segment) index(key string) int {
	if s.sets == nil {
		return strings.Index(key, s.literal)
	}
	for i := 0; i+s.n <= len(key); i++ {
		if s.at(key[i:]) {
			return i
		}
	}
	return -1
}

// Compile compiles a pattern: `*` stands for any run of bytes, `?` for one byte, `[a-z]` and
// `[!a-z]` for a class, and `\` takes the next byte literally. The error says what is wrong with
// the pattern.
func Compile(pattern string) (*Glob, error) {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return &Glob{segments: []segment{{n: len(pattern), literal: pattern}}}, nil
	}
	g := &Glob{segments: make([]segment, 1)}
	starred := false
	for i := 0; i < len(pattern); {
		s := &g.segments[len(g.segments)-1]
		switch pattern[i] {
		case '*':
			i++
			if starred && s.n == 0 { // ** is *
				continue
			}
			starred = true
			g.segments = append(g.segments, segment{})
		case '?':
			i++
			s.appendSet(byteSet{^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)})
		case '[':
			set, width, err := compileClass(pattern[i:])
			if err != nil {
				return nil, err
			}
			i += width
			s.appendSet(set)
		case '\\':
			if i+1 == len(pattern) {
				return nil, errors.New(`ends with a lone \: write \\ for the byte itself`)
			}
			s.appendByte(pattern[i+1])
			i += 2
		default:
			plain := 1
			if s.sets == nil { // all up to the next special byte at once
				if plain = strings.IndexAny(pattern[i:], `*?[\`); plain < 0 {
					plain = len(pattern) - i
				}
				s.literal += pattern[i : i+plain]
				s.n += plain
			} else {
				s.appendByte(pattern[i])
			}
			i += plain
		}
	}
	return g, nil
}

// appendByte and appendSet keep literal whole while there is no set, and
// leave it at the bytes before the first set from then on.
func (s *segment) appendByte(b byte) {
	s.n++
	if s.sets == nil {
		s.literal += string([]byte{b})
		return
	}
	var set byteSet
	set.add(b)
	s.sets = append(s.sets, set)
}

func (s *segment) appendSet(set byteSet) {
	if s.sets == nil {
		s.sets = make([]byteSet, len(s.literal), len(s.literal)+1)
		for i := range len(s.literal) {
			s.sets[i].add(s.literal[i])
		}
	}
	s.n++
	s.sets = append(s.sets, set)
}

// compileClass compiles the class that text begins with, and says how many
// bytes it takes.
func compileClass(text string) (set byteSet, width int, err error) {
	i := 1
	negated := strings.HasPrefix(text[i:], "!")
	if negated {
		i++
	}
	start := i
	next := func() (byte, bool) { // the next member, an escape resolved
		if i < len(text) && text[i] == '\\' {
			i++
		}
		if i >= len(text) {
			return 0, false
		}
		i++
		return text[i-1], true
	}
	for i < len(text) && text[i] != ']' {
		from, ok := next()
		to := from
		if ok && i+1 < len(text) && text[i] == '-' && text[i+1] != ']' {
			i++
			to, ok = next()
		}
		if !ok {
			break
		}
		if to < from {
			return set, 0, fmt.Errorf("has the class range %q that runs backwards: swap its ends", text[start:i])
		}
		for b := int(from); b <= int(to); b++ {
			set.add(byte(b))
		}
	}
	if i >= len(text) {
		return set, 0, errors.New(`has a [ that is never closed: add the ], or write \[ for the byte itself`)
	}
	if i == start {
		return set, 0, errors.New(`has an empty class: put bytes between [ and ], or write \[ for the byte itself`)
	}
	if negated {
		for w := range set {
			set[w] = ^set[w]
		}
	}
	return set, i + 1, nil
}
