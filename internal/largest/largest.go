// SPDX-License-Identifier: Apache-2.0

// Package largest keeps the largest of many values, without keeping or sorting all of them.
//
//	most := largest.New(10, func(a, b int) int { return cmp.Compare(b, a) })
//	for _, v := range values {
//		if most.Wants(v) { // what is dear to add can be left out
//			most.Add(v)
//		}
//	}
//	ten := most.Sorted()
//
// The package does not know what the values are. A Largest is for one caller at a time.
package largest

import "slices"

// Of keeps the largest of the values that are added. Use New. It is not safe for concurrent use.
type Of[T any] struct {
	n      int
	larger func(a, b T) int
	kept   []T // at most twice n, so that it is sorted seldom
	full   bool
	least  T // of the n largest, when kept was sorted last; if full
}

// New returns an Of for the n largest values, of at least one. larger compares as slices.SortFunc
// wants it: larger values come first.
func New[T any](n int, larger func(a, b T) int) *Of[T] {
	return &Of[T]{n: max(n, 1), larger: larger}
}

// Wants reports whether v may be among the largest.
func (l *Of[T]) Wants(v T) bool { return !l.full || l.larger(v, l.least) < 0 }

// Add adds v.
func (l *Of[T]) Add(v T) {
	if l.kept = append(l.kept, v); len(l.kept) == 2*l.n {
		l.kept = l.Sorted()
		l.full, l.least = true, l.kept[l.n-1]
	}
}

// Sorted returns the largest values, the largest first. They change with the next Add.
func (l *Of[T]) Sorted() []T {
	slices.SortFunc(l.kept, l.larger)
	return l.kept[:min(l.n, len(l.kept))]
}
