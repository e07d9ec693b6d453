// SPDX-License-Identifier: Apache-2.0

package table

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// named is a key.
type named struct{ text string }

func (n *named) Text() string { return n.text }

// Hashes are drawn from few, so that keys lie in each other's way, and share
// a hash whole.
func TestAMapIsAMapOfGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, want := new(Map[*named]), make(map[string]*named)
		b.resize(smallestBook)
		hashes := rapid.SliceOfN(rapid.Uint64Range(0, 20), 64, 64).Draw(t, "hashes")
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 63), 0, 300).Draw(t, "toggled") {
			text := fmt.Sprint(n)
			if k := want[text]; k != nil {
				b.Remove(hashes[n], k)
				delete(want, text)
			} else {
				want[text] = &named{text}
				b.Add(hashes[n], want[text])
			}
			if b.live != len(want) || len(b.slots) < b.live+1 || len(b.slots) > max(smallestBook, 8*b.live+8) {
				t.Fatalf("%d keys, counted as %d, in %d slots", len(want), b.live, len(b.slots))
			}
			for n, hash := range hashes {
				text := fmt.Sprint(n)
				if got := b.Find(hash, text); got != want[text] {
					t.Fatalf("key %s with hash %d is %v; want %v", text, hash, got, want[text])
				}
				if k := b.Look(hash); want[text] != nil && k == nil {
					t.Fatalf("key %s with hash %d is overlooked", text, hash)
				}
			}
		}
	})
}

// plain is a Table as simple as can be: it knows no shards and takes one row after
// another.
type plain map[string]*named

// visited notes what Visit does.
type visited struct {
	t     *testing.T
	table *Table[*named]
	texts []string
	found map[string]*named // by text
	locks bool              // Rows was called, and Unlocked was not
	now   time.Duration
	rows  []int32
}

func (v *visited) Rows(now time.Duration, rows []int32, hashes []uint64, likely []*named) {
	if v.locks || now < v.now || len(rows) > AtOnce || len(hashes) != len(rows) || len(likely) != len(rows) {
		v.t.Errorf("rows %v at %v, after %v", rows, now, v.now)
	}
	v.locks, v.now = true, now
	for n, row := range rows {
		text := v.texts[row]
		if hashes[n] != v.table.Hash(text) {
			v.t.Errorf("row %d has another hash", row)
		}
		k := v.table.Shard(hashes[n]).Map("mine").Find(hashes[n], text)
		if k != nil && likely[n] == nil && len(v.texts) > Few {
			v.t.Errorf("%s is overlooked", text)
		}
		v.found[text] = k
	}
	v.rows = append(v.rows, rows...)
}

func (v *visited) Unlocked() { v.locks = false }

// A visit finds what a map does, and comes to each row once.
func TestAVisitIsALoopOverAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		table, want := New[*named](), make(plain)
		for _, n := range rapid.SliceOfDistinct(rapid.IntRange(0, 500), rapid.ID[int]).Draw(rt, "keys") {
			k := &named{fmt.Sprint(n)}
			hash := table.Hash(k.text)
			table.Shard(hash).Map("mine").Add(hash, k)
			want[k.text] = k
		}
		v := &visited{t: t, table: table, found: make(map[string]*named)}
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 500), 0, 300).Draw(rt, "rows") {
			v.texts = append(v.texts, fmt.Sprint(n))
		}
		table.Visit(time.Second, "mine", v.texts, rapid.Uint32().Draw(rt, "begin"), new(Order[*named]), v)
		slices.Sort(v.rows)
		for i, row := range v.rows {
			if int(row) != i {
				rt.Fatalf("row %d of %d is missing, or comes twice: %v", i, len(v.texts), v.rows)
			}
		}
		for _, text := range v.texts {
			if v.found[text] != want[text] {
				rt.Fatalf("%s is %v, want %v", text, v.found[text], want[text])
			}
		}
		if len(v.rows) != len(v.texts) || v.locks {
			rt.Fatalf("%d rows of %d, locked: %v", len(v.rows), len(v.texts), v.locks)
		}
		entries := 0
		for sh := range table.All {
			entries += len(sh.Entries())
		}
		if entries != len(want) {
			rt.Fatalf("%d entries of %d keys", entries, len(want))
		}
	})
}
