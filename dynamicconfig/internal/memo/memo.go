// SPDX-License-Identifier: Apache-2.0

// Package memo finds again what was made not long ago and is still in use. It does not know what
// that is, and keeps nothing in memory.
package memo

import (
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
	m.mu.Lock()
	made := m.made
	m.mu.Unlock()
	for _, pointer := range made {
		if t := pointer.Value(); t != nil && is(t) {
			return t
		}
	}
	return nil
}

// Add remembers t, in place of the oldest.
func (m *Memo[T]) Add(t *T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made[m.next] = weak.Make(t)
	m.next = (m.next + 1) % size
}
