// SPDX-License-Identifier: Apache-2.0

// Package memo finds again what was made not long ago and is still in use. It does not know what
// that is, and keeps nothing in memory. One lock guards it.
package memo

import (
	"iter"
	"sync"
	"weak"
)

// size is how many things a Memo remembers: a change of the limits has a text before and one after
// it, and a process may have two of each.
const size = 4

// Memo remembers the newest things that were made. The zero Memo is ready for use. It is safe for
// concurrent use.
type Memo[T any] struct {
	mu   sync.Mutex // guards what follows
	made [size]weak.Pointer[T]
	next int // which of made is the oldest
}

// Find returns one that is still in use and of which is returns true, or nil.
func (m *Memo[T]) Find(is func(*T) bool) *T {
	for t := range m.inUse() {
		if is(t) {
			return t
		}
	}
	return nil
}

// Nearest returns the newest of those that are still in use and have the least distance; nil if none is in use.
func (m *Memo[T]) Nearest(distance func(*T) int) (nearest *T) {
	least := 0
	for t := range m.inUse() {
		if d := distance(t); nearest == nil || d < least {
			nearest, least = t, d
		}
	}
	return nearest
}

// inUse are those that are still in use, the newest first.
func (m *Memo[T]) inUse() iter.Seq[*T] {
	m.mu.Lock()
	made, next := m.made, m.next
	m.mu.Unlock()
	return func(yield func(*T) bool) {
		for i := range size {
			if t := made[(next+size-1-i)%size].Value(); t != nil && !yield(t) {
				return
			}
		}
	}
}

// Add remembers t, in place of the oldest.
func (m *Memo[T]) Add(t *T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made[m.next] = weak.Make(t)
	m.next = (m.next + 1) % size
}
