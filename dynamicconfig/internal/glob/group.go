// SPDX-License-Identifier: Apache-2.0

package glob

import "slices"

const (
	// manyGlobs is how large a group is split: to look for the parts of a key in a
	// map takes about as long as to try so many globs.
	manyGlobs = 64
	// maxPart is the most bytes of a part, by which a large group is split.
	maxPart = 8
	// maxParts bounds the parts of one segment that are looked at, for patterns of
	// a thousand bytes.
	maxParts = 32
)

// group is the globs that begin with the same literal bytes. A large group is split by
// parts: bytes that each key which the glob matches has, after the beginning. Of all
// parts of a glob, it is found by the one that the fewest others have.
type group struct {
	all []numberedGlob // in file order

	parts   map[string][]numberedGlob // each in file order; nil unless the group is split
	lengths []int                     // of the parts, no repeats
	rest    []numberedGlob            // globs without a part
}

// split splits a large group.
func (g *group) split() {
	if len(g.all) < manyGlobs {
		return
	}
	have := make(map[string]int) // how many globs have a part
	for _, n := range g.all {
		for _, part := range n.glob.parts() {
			have[part]++
		}
	}
	g.parts = make(map[string][]numberedGlob)
	for _, n := range g.all {
		rarest := ""
		for _, part := range n.glob.parts() {
			if rarest == "" || have[part] < have[rarest] {
				rarest = part
			}
		}
		if rarest == "" {
			g.rest = append(g.rest, n)
			continue
		}
		g.parts[rarest] = append(g.parts[rarest], n)
		if !slices.Contains(g.lengths, len(rarest)) {
			g.lengths = append(g.lengths, len(rarest))
		}
	}
}

// find is the lowest number below best, unless that is -1, of a rule whose glob matches
// key; best if there is none. The group's globs begin with n bytes that key has.
func (g *group) find(key string, n, best int) int {
	if g.parts == nil {
		return first(g.all, key, best)
	}
	best = first(g.rest, key, best)
	for _, length := range g.lengths {
		for i := n; i+length <= len(key); i++ {
			if found := g.parts[key[i:i+length]]; found != nil {
				best = first(found, key, best)
			}
		}
	}
	return best
}

// first is the lowest number below best, unless that is -1, of those that match key.
func first(globs []numberedGlob, key string, best int) int {
	for _, n := range globs {
		if best >= 0 && n.rule > best {
			break
		}
		if n.glob.Match(key) {
			return n.rule
		}
	}
	return best
}

// parts returns what each key that g matches has after g's prefix: the literal bytes of
// each segment, in pieces of at most maxPart bytes, without repeats.
func (g *Glob) parts() (all []string) {
	for i := range g.segments[1:] {
		s := &g.segments[1+i]
		length := min(len(s.literal), maxPart)
		for at := 0; length > 0 && at+length <= len(s.literal) && at < maxParts; at++ {
			if part := s.literal[at : at+length]; !slices.Contains(all, part) {
				all = append(all, part)
			}
		}
	}
	return all
}
