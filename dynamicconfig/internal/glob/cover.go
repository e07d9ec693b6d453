// SPDX-License-Identifier: Apache-2.0

package glob

import "strings"

// sample is one of the shortest keys that g matches.
func (g *Glob) sample() string {
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

func (g *Glob) steps() (all []step) {
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

// Covers reports whether g matches all keys that other matches. It may say no where that takes
// long to tell.
func (g *Glob) Covers(other *Glob) bool {
	yes, _ := g.covers(other)
	return yes
}

// covers is Covers, and how much work that was.
//
// It follows all keys of other at once, byte by byte: at each place of other's pattern it
// keeps the sets of places that g's pattern may then be at. If other can end where g cannot,
// there is a key that g does not match.
func (g *Glob) covers(other *Glob) (yes bool, work int) {
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
