// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc/usage"
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

// What look finds by its hash may be another key: the text decides.
func TestAKeyOfTheSameHashIsNotMistaken(t *testing.T) {
	a := weighted(t, cadence)
	text := reportOf(algorithm.NameRequestWeighted, 60, 0, time.Second, "k")
	step(t, a, 0, "a", text)
	k := known(a, algorithm.NameRequestWeighted, "k")
	b, other := a.shards[shardOf(7)].book(text.Algorithm), &key{text: "other", settings: k.settings, rule: k.rule, ledger: newLedger()}
	b.add(7, other)
	b.add(7, k)
	id := a.hosts.acquire("b")
	other.ledger.record(0, none, id, algorithm.Rates{Allowed: 1}, s, k.settings) // the row that has host a in k
	alg, err := a.registry.Lookup(algorithm.NameRequestWeighted)
	if err != nil {
		t.Fatal(err)
	}
	var g usage.Grants
	resize(&g, 1, false)
	u := update{a: a, settings: a.settings.Load(), sharing: newSharing(alg), usage: text, host: id, grants: &g}
	u.likely[0].key = b.look(7)
	u.fetch([]int32{0}, u.likely[:1])
	if u.likely[0].key != other || u.likely[0].row == none {
		t.Fatal("the test is about a key that look mistakes")
	}
	if err := u.row(&u.likely[0], 0, 7); err != nil {
		t.Fatal(err)
	}
	if k.hosts() != 2 || other.hosts() != 1 || !near(g.Weight[0], 0.5) {
		t.Errorf("k has %d hosts, the other key %d; the grant is %v", k.hosts(), other.hosts(), g.Weight[0])
	}
}
