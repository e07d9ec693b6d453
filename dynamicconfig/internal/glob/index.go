// SPDX-License-Identifier: Apache-2.0

package glob

import "slices"

// Index finds the rule of a key, by number. Exact keys are in a map. Globs are grouped
// by the literal bytes they begin with, so that a key is tried only against
// globs whose beginning it shares, however many rules there are: one map
// lookup for each different length of a beginning. A large group is split again, by
// bytes that keys must have somewhere: see group.
//
//	"frontend:orders" ── exact? ──▶ rule
//	        │ no
//	        ├─ lengths 0, 6, 9: globs[""], globs["fronte"], globs["frontend:"]
//	        └─ of the matches, the one that comes first in the file
//
// The caller calls Finish after the last Add, and before the first Find.
type Index struct {
	exact   map[string]int
	shared  map[string]int    // shared rules by pattern, which is the key of their bucket
	globs   map[string]*group // by prefix
	lengths []int             // of the prefixes, ascending, no repeats
}

type numberedGlob struct {
	rule int
	glob *Glob
}

// Grow makes room for n rules with exact keys. It is for an empty Index.
func (x *Index) Grow(n int) { x.exact = make(map[string]int, n) }

// Add makes rule i findable. It returns the rule that already has the same
// exact key, or -1; i is then not added.
func (x *Index) Add(i int, g *Glob) (taken int) {
	if g.Exact() {
		key := g.Prefix()
		if j, ok := x.exact[key]; ok {
			return j
		}
		if x.exact == nil {
			x.exact = make(map[string]int)
		}
		x.exact[key] = i
		return -1
	}
	if x.globs == nil {
		x.globs = make(map[string]*group)
	}
	p := g.Prefix()
	if x.globs[p] == nil {
		x.globs[p] = new(group)
	}
	x.globs[p].all = append(x.globs[p].all, numberedGlob{i, g})
	if at, ok := slices.BinarySearch(x.lengths, len(p)); !ok {
		x.lengths = slices.Insert(x.lengths, at, len(p))
	}
	return -1
}

// Share has the key that is the pattern of rule i find rule i, even if the
// pattern does not match itself, or an earlier one does.
func (x *Index) Share(i int, pattern string) {
	if x.shared == nil {
		x.shared = make(map[string]int)
	}
	x.shared[pattern] = i
}

// Finish makes x ready for Find.
func (x *Index) Finish() {
	for _, g := range x.globs {
		g.split()
	}
}

// Find is the number of the rule of key, or -1.
func (x *Index) Find(key string) int {
	if i, ok := x.exact[key]; ok {
		return i
	}
	if i, ok := x.shared[key]; ok {
		return i
	}
	best := -1
	for _, n := range x.lengths {
		if n > len(key) {
			break
		}
		if g := x.globs[key[:n]]; g != nil {
			best = g.find(key, n, best)
		}
	}
	return best
}
