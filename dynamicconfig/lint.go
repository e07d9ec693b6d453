// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
)

// maxCompared bounds the bytes of patterns and keys that Warnings compares, for files of many
// globs that begin alike: about a second.
const maxCompared = 30_000_000

// Warnings are what is legal and surely not meant, in the order of the text: globs whose keys
// all have an earlier rule, keys with characters that look like others, and costs that no
// event may have.
func (s *Snapshot) Warnings() []*Error {
	var all []*Error
	parts, first := s.parts, 0
	if parts == nil {
		parts = []*Snapshot{s}
	}
	hidden := s.hidden()
	for _, part := range parts {
		p := strictyaml.Problems{Text: part.origin.text}
		for i, r := range part.rules {
			if text, ok := hidden[first+i]; ok && text != r.Key { // of two rules with one key, Parse says more
				p.Add(part.places[i], "rule %s is never used: %s stands before it and matches all of its keys: put it before that", quote(r.Key), quote(text))
			}
			if strange := strangeIn(r.Key); strange != "" {
				p.Add(part.places[i], "rule %s: key: %s", quote(r.Key), strange)
			}
			if text := tooCostly(&r); text != "" {
				p.Add(part.places[i], "rule %s: %s", quote(r.Key), text)
			}
		}
		first += len(part.rules)
		p.Each(func(at mark, message, source string) {
			all = append(all, &Error{Name: part.origin.name, Line: at.Line, Column: at.Column, Message: message, Source: source})
		})
	}
	return all
}

// hidden are the globs that no key finds, by their numbers: each with an earlier glob that
// matches all of its keys. A rule that is shared is found by its own pattern.
func (s *Snapshot) hidden() map[int]string {
	found := make(map[int]string)
	earlier := make(map[string][]numberedGlob) // by what their keys begin with
	compared := 0
	for i := range s.rules {
		g, err := compileGlob(s.rules[i].Key)
		if err != nil || g.exact() {
			continue // exact keys win, wherever they stand
		}
		own := g.prefix()
		sample := g.sample()
		for n := range len(own) + 1 {
			for _, wide := range earlier[own[:n]] {
				if compared += 8 + len(sample)*len(wide.glob.segments[len(wide.glob.segments)/2].sets); compared > maxCompared {
					return found
				}
				if _, already := found[i]; already || !wide.glob.match(sample) {
					continue
				}
				yes, work := wide.glob.covers(g)
				if compared += work; yes {
					found[i] = s.rules[wide.rule].Key
				}
			}
		}
		if _, hidden := found[i]; !hidden { // what hides it hides what it would hide
			earlier[own] = append(earlier[own], numberedGlob{i, g})
		}
	}
	return found
}

// lookalikes are characters that are written for others, and what was meant.
var lookalikes = strings.NewReplacer(
	"“", `"`, "”", `"`, "„", `"`, "‟", `"`, "«", `"`, "»", `"`,
	"‘", "'", "’", "'", "‚", "'", "‛", "'",
	"–", "-", "—", "-", "−", "-", "‐", "-", "‑", "-",
	"∗", "*", "⁎", "*", "×", "x", "…", "...", "∶", ":", "ː", ":", "։", ":", "⁄", "/", "∕", "/",
)

// strangeIn says what in a key is surely not meant; empty if there is nothing.
func strangeIn(key string) string {
	latin := strings.ContainsFunc(key, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
	for _, r := range key {
		meant := lookalikes.Replace(string(r))
		if r >= '！' && r <= '～' { // full width
			meant = string(r - '！' + '!')
		}
		switch {
		case meant != string(r):
			return fmt.Sprintf("has the character %c (%U), which looks like %s and is not: write %[3]s", r, r, meant)
		case r > unicode.MaxASCII && !unicode.IsPrint(r):
			return fmt.Sprintf("has the character %U, which cannot be seen: remove it", r)
		case latin && unicode.In(r, unicode.Cyrillic, unicode.Greek):
			return fmt.Sprintf("has the letter %c (%U) beside Latin letters, which it may look like: type the key again", r, r)
		}
	}
	if strings.TrimSpace(key) != key {
		return "begins or ends with a space: remove it"
	}
	return regexpIn(key)
}

// regexpIn says what in a key has a meaning in a regular expression or in a shell, and none in
// a glob; empty if there is nothing. It leaves out what many keys have, such as .* and {id}.
func regexpIn(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open:], '}'); n > 0 && strings.Contains(key[open:open+n], ",") {
			return fmt.Sprintf("has %s, which stands for itself only: write a rule for each, or a *", key[open:open+n+1])
		}
	}
	if open := strings.IndexByte(key, '('); open >= 0 {
		if n := strings.IndexByte(key[open:], ')'); n > 0 && strings.Contains(key[open:open+n], "|") {
			return fmt.Sprintf("has %s, which stands for itself only: write a rule for each, or a *", key[open:open+n+1])
		}
	}
	for _, class := range []struct{ written, glob string }{{`\d`, "[0-9]"}, {`\w`, "[a-zA-Z0-9_]"}, {".+", "?*"}} {
		if strings.Contains(strings.ReplaceAll(key, `\\`, ""), class.written) {
			return fmt.Sprintf("has %s, which a glob does not know: write %s", class.written, class.glob)
		}
	}
	if strings.HasPrefix(key, "^") {
		return "begins with ^, which stands for itself only: remove it, because a glob matches whole keys"
	}
	return ""
}

// sample is one of the shortest keys that g matches.
func (g *glob) sample() string {
	var key []byte
	for i := range g.segments {
		s := &g.segments[i]
		if s.sets == nil {
			key = append(key, s.literal...)
			continue
		}
		for j := range s.sets {
			for b := range 256 {
				if s.sets[j].has(byte(b)) {
					key = append(key, byte(b))
					break
				}
			}
		}
	}
	return string(key)
}

// step is one byte of a pattern, or any run of bytes.
type step struct {
	set  byteSet
	star bool
}

func (g *glob) steps() (all []step) {
	for i := range g.segments {
		if i > 0 {
			all = append(all, step{star: true})
		}
		s := &g.segments[i]
		for j := range s.n {
			if s.sets != nil {
				all = append(all, step{set: s.sets[j]})
				continue
			}
			var one byteSet
			one.add(s.literal[j])
			all = append(all, step{set: one})
		}
	}
	return all
}

// maxCover bounds the work of covers, in places of a pattern looked at.
const maxCover = 1_000_000

// covers reports whether g matches all keys that other matches, and how much work that was. It
// says no where that takes too much.
//
// It follows all keys of other at once, byte by byte: at each place of other's pattern it
// keeps the sets of places that g's pattern may then be at. If other can end where g cannot,
// there is a key that g does not match.
func (g *glob) covers(other *glob) (yes bool, work int) {
	mine, its := g.steps(), other.steps()
	bytes := different(mine, its)
	type state struct {
		at  int
		set string // one byte for each place of mine that may be reached
	}
	reach := func(set []byte) string { // a star may stand for nothing
		for i := range mine {
			if set[i] == 1 && mine[i].star {
				set[i+1] = 1
			}
		}
		return string(set)
	}
	after := func(from string, b byte) string {
		set := make([]byte, len(mine)+1)
		for i := range mine {
			if from[i] == 1 && mine[i].star {
				set[i] = 1
			} else if from[i] == 1 && mine[i].set.has(b) {
				set[i+1] = 1
			}
		}
		return reach(set)
	}
	begin := make([]byte, len(mine)+1)
	begin[0] = 1
	todo := []state{{0, reach(begin)}}
	seen := map[state]bool{todo[0]: true}
	for len(todo) > 0 {
		now := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if work += len(bytes) * len(now.set); !strings.Contains(now.set, "\x01") || work > maxCover {
			return false, work
		}
		visit := func(s state) {
			if !seen[s] {
				seen[s] = true
				todo = append(todo, s)
			}
		}
		if now.at == len(its) {
			if now.set[len(mine)] == 0 {
				return false, work
			}
			continue
		}
		next := its[now.at]
		if next.star {
			visit(state{now.at + 1, now.set})
		}
		for _, b := range bytes {
			switch {
			case next.star:
				visit(state{now.at, after(now.set, b)})
			case next.set.has(b):
				visit(state{now.at + 1, after(now.set, b)})
			}
		}
	}
	return true, work
}

// different are bytes that patterns can tell apart, one of each kind.
func different(patterns ...[]step) (bytes []byte) {
	sets := make(map[byteSet]bool)
	for _, p := range patterns {
		for _, s := range p {
			sets[s.set] = true
		}
	}
	kinds := make([][]byte, 256) // which of the sets have the byte
	for set := range sets {
		for b := range 256 {
			kinds[b] = append(kinds[b], byte(set[b>>6]>>(b&63)&1))
		}
	}
	seen := make(map[string]bool)
	for b, kind := range kinds {
		if !seen[string(kind)] {
			seen[string(kind)] = true
			bytes = append(bytes, byte(b))
		}
	}
	return bytes
}

// meantFactor is the factor that a text like x2, 2× or 200% surely means; empty if it is not
// clear.
func meantFactor(text string) string {
	text = strings.ReplaceAll(text, "×", "x")
	if percent, ok := strings.CutSuffix(text, "%"); ok && isNumber(percent) {
		if n, err := parseNumber(percent); err == nil && n/100 >= minFactor && n/100 <= MaxFactor {
			return number(n/100) + "x"
		}
	}
	for _, count := range []string{strings.TrimPrefix(text, "x"), strings.TrimSuffix(text, "x")} {
		if count != text && isNumber(count) {
			return count + "x"
		}
	}
	return ""
}

// meantRate is the limit that a text like 100rps or 10k/sec surely means; empty if it is not
// clear.
func meantRate(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	end := strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789.", r) })
	if end <= 0 || !isNumber(text[:end]) {
		return ""
	}
	count, unit := text[:end], strings.TrimSpace(text[end:])
	switch strings.NewReplacer(" ", "", "-", "", "_", "").Replace(unit) {
	case "inflight", "slots", "slot", "concurrent", "parallel", "atonce":
		return count + " in-flight"
	}
	if rest, ok := strings.CutPrefix(unit, "k"); ok {
		count, unit = count+"e3", strings.TrimSpace(rest)
	}
	unit = strings.Trim(strings.TrimPrefix(unit, "per"), "/ ")
	for written, names := range map[string][]string{
		"s": {"s", "sec", "secs", "second", "seconds", "rps", "qps", "tps", "ps", "hz", "r/s", "req/s", "requests/s"},
		"m": {"m", "min", "mins", "minute", "minutes", "rpm", "qpm", "r/m", "req/m", "requests/m"},
		"h": {"h", "hr", "hrs", "hour", "hours", "rph", "qph", "r/h", "req/h", "requests/h"},
	} {
		if slices.Contains(names, unit) {
			return count + "/" + written
		}
	}
	return ""
}
