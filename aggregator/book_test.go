// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// Hashes are drawn from few, so that keys lie in each other's way, and share
// a hash whole.
func TestABookIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, want := new(book), make(map[string]*key)
		b.resize(smallestBook)
		hashes := rapid.SliceOfN(rapid.Uint64Range(0, 20), 64, 64).Draw(t, "hashes")
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 63), 0, 300).Draw(t, "toggled") {
			text := fmt.Sprint(n)
			if k := want[text]; k != nil {
				b.remove(hashes[n], k)
				delete(want, text)
			} else {
				want[text] = &key{text: text}
				b.add(hashes[n], want[text])
			}
			if b.live != len(want) || len(b.slots) < b.live+1 || len(b.slots) > max(smallestBook, 8*b.live+8) {
				t.Fatalf("%d keys, counted as %d, in %d slots", len(want), b.live, len(b.slots))
			}
			for n, hash := range hashes {
				text := fmt.Sprint(n)
				if got := b.find(hash, text); got != want[text] {
					t.Fatalf("key %s with hash %d is %v; want %v", text, hash, got, want[text])
				}
				if k := b.look(hash); want[text] != nil && k == nil {
					t.Fatalf("key %s with hash %d is overlooked", text, hash)
				}
			}
		}
	})
}
