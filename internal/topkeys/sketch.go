// SPDX-License-Identifier: Apache-2.0

package topkeys

import (
	"cmp"
	"slices"
	"strings"
)

// Sketch adds up numbers by key over many passes, forgets them with time, and remembers only
// the keys with the largest sums. Use NewSketch. It is not safe for concurrent use.
//
// It is a summary of frequent items, as Space-Saving is, for input that comes in passes:
// because a pass names each key once, a key that is not remembered costs a look in a small
// map and a comparison, where Space-Saving would replace a remembered one.
type Sketch struct {
	most   int
	places map[string]int // in kept
	kept   []Entry        // during a pass in the order of the pass before, afterwards the largest first
	fresh  []Entry        // a heap, the smallest first: keys of this pass that are not in kept
	least  float64        // a sum that is not larger has no place any more
	lost   float64        // the largest sum of this pass that had no place
	behind float64
}

// Entry is a key with its sum.
type Entry struct {
	Key string
	Sum float64
}

// NewSketch returns a Sketch that remembers most keys; at least 1.
func NewSketch(most int) *Sketch {
	most = max(most, 1)
	return &Sketch{most: most, places: make(map[string]int, most)}
}

// Begin begins a pass. All sums are multiplied by keep, in [0, 1].
func (s *Sketch) Begin(keep float64) {
	s.behind *= keep
	s.lost, s.least = 0, 0
	for i := range s.kept {
		s.kept[i].Sum *= keep
	}
	if len(s.kept) == s.most {
		s.least = s.kept[len(s.kept)-1].Sum
	}
}

// Add adds n, at least 0, to the sum of key. A pass names each key once. The Sketch keeps the
// string while it remembers the key.
func (s *Sketch) Add(key string, n float64) {
	if n <= 0 {
		return
	}
	if i, ok := s.places[key]; ok {
		s.kept[i].Sum += n
		return
	}
	s.addNew(key, n)
}

// addNew is Add for a key that is not remembered.
func (s *Sketch) addNew(key string, n float64) {
	if n <= s.least {
		s.lost = max(s.lost, n)
		return
	}
	if len(s.fresh) < s.most {
		s.fresh = append(s.fresh, Entry{key, n})
		s.up(len(s.fresh) - 1)
	} else {
		s.lost = max(s.lost, s.fresh[0].Sum)
		s.fresh[0] = Entry{key, n}
		s.down()
	}
	if len(s.fresh) == s.most {
		s.least = max(s.least, s.fresh[0].Sum)
	}
}

// up restores the heap after the sum at i was added.
func (s *Sketch) up(i int) {
	for i > 0 && s.fresh[i].Sum < s.fresh[(i-1)/2].Sum {
		s.fresh[i], s.fresh[(i-1)/2] = s.fresh[(i-1)/2], s.fresh[i]
		i = (i - 1) / 2
	}
}

// down restores the heap after the first sum was replaced.
func (s *Sketch) down() {
	for i := 0; ; {
		child := 2*i + 1
		if child >= len(s.fresh) {
			return
		}
		if child+1 < len(s.fresh) && s.fresh[child+1].Sum < s.fresh[child].Sum {
			child++
		}
		if s.fresh[i].Sum <= s.fresh[child].Sum {
			return
		}
		s.fresh[i], s.fresh[child] = s.fresh[child], s.fresh[i]
		i = child
	}
}

// negligible is a sum that is as good as none.
const negligible = 1e-6

// End ends a pass.
func (s *Sketch) End() {
	s.kept = append(s.kept, s.fresh...)
	clear(s.fresh)
	s.fresh = s.fresh[:0]
	slices.SortFunc(s.kept, func(a, b Entry) int { return cmp.Or(cmp.Compare(b.Sum, a.Sum), strings.Compare(a.Key, b.Key)) })
	keep := min(len(s.kept), s.most)
	for keep > 0 && s.kept[keep-1].Sum < negligible {
		keep--
	}
	if keep < len(s.kept) {
		s.lost = max(s.lost, s.kept[keep].Sum)
		clear(s.kept[keep:])
		s.kept = s.kept[:keep]
	}
	s.behind += s.lost
	clear(s.places)
	for i, e := range s.kept {
		s.places[e.Key] = i
	}
}

// Largest returns the k keys with the largest sums, the largest first. Call it between passes.
func (s *Sketch) Largest(k int) []Entry { return slices.Clone(s.kept[:min(k, len(s.kept))]) }

// Sum is that of key; 0 if it is not remembered. Call it between passes.
func (s *Sketch) Sum(key string) float64 {
	if i, ok := s.places[key]; ok {
		return s.kept[i].Sum
	}
	return 0
}

// Behind is by how much a sum may be less than all that was added to its key, and the most
// that the sum of a key is that is not remembered. No sum is too large.
func (s *Sketch) Behind() float64 { return s.behind }
