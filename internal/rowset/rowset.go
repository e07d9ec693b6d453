// SPDX-License-Identifier: Apache-2.0

// Package rowset keeps a row for each of some hosts, compactly: five to eight
// bytes beside the row itself, and five to nine of an index, in two slices and no
// pointers, so that millions of rows cost the garbage collector nothing. There may be
// room for an eighth more rows. Rows of hosts that are gone are used again, and are
// free when the last host is gone.
//
// Hosts are small numbers, given out densely. The index is a hash table in which
// sixteen hosts that follow each other lie beside each other. Few hosts need no index at all.
//
// The package does not know what a row or a host is. It has no lock: a Set is for one caller at a
// time.
package rowset

// Set is rows by host. Its zero value is empty. It is not safe for
// concurrent use.
type Set[R any] struct {
	rows  []row[R]
	index []int32 // slots: number of a row + 1, or 0; nil for few rows
	free  int32   // head of the list of free rows: number + 1, or 0
	live  int32
}

type row[R any] struct {
	host uint32 // if free, the next free row's number + 1
	used bool
	of   R
}

// None is no row.
const None int32 = -1

// scanned is up to how many rows are looked through one by one.
const scanned = 8

// Len is how many hosts have rows.
func (s *Set[R]) Len() int { return int(s.live) }

// At is row number i, which must be in use. The pointer is good until the
// next Add.
func (s *Set[R]) At(i int32) *R { return &s.rows[i].of }

// Host is whose row number i is.
func (s *Set[R]) Host(i int32) uint32 { return s.rows[i].host }

// Find is the number of host's row, or None. It stays the same until Remove.
func (s *Set[R]) Find(host uint32) int32 {
	if s.index == nil {
		for i := range s.rows {
			if s.rows[i].host == host && s.rows[i].used {
				return int32(i)
			}
		}
		return None
	}
	mask := uint32(len(s.index) - 1)
	for at := s.home(host); ; at = (at + 1) & mask {
		i := s.index[at] - 1
		if i == None || s.rows[i].host == host {
			return i
		}
	}
}

// Of is row number i, which may be any, if that is host's; else it is nil.
func (s *Set[R]) Of(i int32, host uint32) *R {
	if n := uint(uint32(i)); n < uint(len(s.rows)) {
		if r := &s.rows[n]; r.host == host && r.used {
			return &r.of
		}
	}
	return nil
}

// FindAt is Find, and fast if host's row is number guess, which may be any. A caller in a
// hurry tries Of first, which it has inlined.
func (s *Set[R]) FindAt(guess int32, host uint32) int32 {
	if s.Of(guess, host) != nil {
		return guess
	}
	return s.Find(host)
}

// Add makes a zero row for host, which must not have one, and returns its
// number.
func (s *Set[R]) Add(host uint32) int32 {
	i := s.free - 1
	if i != None {
		s.free = int32(s.rows[i].host)
	} else {
		i = int32(len(s.rows))
		if len(s.rows) == cap(s.rows) {
			// By an eighth, as rows are many and hosts join seldom; and by
			// append, which takes all of what the allocator has to give.
			n := len(s.rows)
			s.rows = append(append([]row[R](nil), make([]row[R], n+max(n/8, 1))...)[:0], s.rows...)
		}
		s.rows = append(s.rows, row[R]{})
	}
	s.rows[i] = row[R]{host: host, used: true}
	s.live++
	switch {
	case s.index != nil && int(s.live)*8 <= len(s.index)*7:
		s.insert(i)
	case s.live > scanned:
		s.reindex()
	}
	return i
}

// Remove frees row number i.
func (s *Set[R]) Remove(i int32) {
	if s.index != nil {
		s.unindex(i)
	}
	s.rows[i] = row[R]{host: uint32(s.free)}
	s.free = i + 1
	if s.live--; s.live == 0 {
		*s = Set[R]{}
	}
}

// All yields the numbers of all rows, and the rows, in the same order for the
// same history. Rows may be removed meanwhile.
func (s *Set[R]) All(yield func(i int32, row *R) bool) {
	for i := 0; i < len(s.rows); i++ {
		if r := &s.rows[i]; r.used && !yield(int32(i), &r.of) {
			return
		}
	}
}

// home is the slot of host, if no other host has it. Groups of hosts are spread over the index:
// else all hosts would be one run of slots, and to remove one would take a look at all.
func (s *Set[R]) home(host uint32) uint32 {
	const group = 16 // a cache line
	groups := uint64(len(s.index) / group)
	return uint32(uint64(host/group*0x9e3779b1)*groups>>32)*group + host%group
}

// insert puts row number i into the index.
func (s *Set[R]) insert(i int32) {
	mask := uint32(len(s.index) - 1)
	at := s.home(s.rows[i].host)
	for s.index[at] != 0 {
		at = (at + 1) & mask
	}
	s.index[at] = i + 1
}

// unindex takes row number i out of the index, and moves those that it was in
// the way of.
func (s *Set[R]) unindex(i int32) {
	mask := uint32(len(s.index) - 1)
	at := s.home(s.rows[i].host)
	for s.index[at] != i+1 {
		at = (at + 1) & mask
	}
	for next := (at + 1) & mask; s.index[next] != 0; next = (next + 1) & mask {
		home := s.home(s.rows[s.index[next]-1].host)
		if (next-home)&mask >= (next-at)&mask {
			s.index[at] = s.index[next]
			at = next
		}
	}
	s.index[at] = 0
}

// reindex makes an index with room for more.
func (s *Set[R]) reindex() {
	size := 2 * scanned
	for size*7 < int(s.live)*8 {
		size *= 2
	}
	s.index = make([]int32, size)
	for i := range s.All {
		s.insert(i)
	}
}
