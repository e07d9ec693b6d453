// SPDX-License-Identifier: Apache-2.0

package aggregator

import "strings"

// book is the keys of one algorithm in one shard, by the hash of their text:
// open addressing with linear probing. A key that migrates is in two books.
//
// It is a table of its own because of how it is read: look finds where keys
// lie without touching them, so that an update can have the memory behind many
// keys fetched at once, and not one after another.
type book struct {
	algorithm string
	slots     []slot // a power of two
	live      int
}

type slot struct {
	hash uint64
	key  *key // nil: empty
}

const smallestBook = 8

// book is the book of an algorithm, which begins if there is none. There are
// few.
func (sh *shard) book(algorithm string) *book {
	for _, b := range sh.books {
		if b.algorithm == algorithm {
			return b
		}
	}
	b := &book{algorithm: strings.Clone(algorithm)}
	b.resize(smallestBook)
	sh.books = append(sh.books, b)
	return b
}

// look is the key that hash most likely belongs to, or nil if there is none
// for sure.
func (b *book) look(hash uint64) *key {
	mask := uint64(len(b.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		if s := &b.slots[at]; s.hash == hash || s.key == nil {
			return s.key
		}
	}
}

// find is the key called text, or nil.
func (b *book) find(hash uint64, text string) *key {
	mask := uint64(len(b.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		s := &b.slots[at]
		if s.key == nil || s.hash == hash && s.key.text == text {
			return s.key
		}
	}
}

// add puts k in, which is not there.
func (b *book) add(hash uint64, k *key) {
	if (b.live+1)*4 > len(b.slots)*3 {
		b.resize(len(b.slots) * 2)
	}
	b.put(slot{hash, k})
	b.live++
}

func (b *book) put(s slot) {
	mask := uint64(len(b.slots) - 1)
	at := s.hash & mask
	for b.slots[at].key != nil {
		at = (at + 1) & mask
	}
	b.slots[at] = s
}

// remove takes k out, and moves those that it was in the way of.
func (b *book) remove(hash uint64, k *key) {
	mask := uint64(len(b.slots) - 1)
	at := hash & mask
	for b.slots[at].key != k {
		at = (at + 1) & mask
	}
	for next := (at + 1) & mask; b.slots[next].key != nil; next = (next + 1) & mask {
		home := b.slots[next].hash & mask
		if (next-home)&mask >= (next-at)&mask {
			b.slots[at] = b.slots[next]
			at = next
		}
	}
	b.slots[at] = slot{}
	if b.live--; b.live*8 < len(b.slots) && len(b.slots) > smallestBook {
		b.resize(len(b.slots) / 2)
	}
}

func (b *book) resize(n int) {
	old := b.slots
	b.slots = make([]slot, max(n, smallestBook))
	for _, s := range old {
		if s.key != nil {
			b.put(s)
		}
	}
}
