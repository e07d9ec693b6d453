// SPDX-License-Identifier: Apache-2.0

package keytable

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// value remembers its key.
type value struct{ key string }

func add(t *Table[value], key string) *value {
	v := &value{key}
	p := t.Lock(key)
	p.Put(v)
	p.Unlock()
	return v
}

func remove(t *Table[value], key string) {
	p := t.Lock(key)
	p.Delete()
	p.Unlock()
}

// size is how many keys t has.
func size(t *Table[value]) (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += s.live
		s.mu.Unlock()
	}
	return n
}

// A Table does what a map does, while others read: they find a key that stays,
// and never the value of another key.
func TestDoesWhatAMapDoes(t *testing.T) {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	rapid.Check(t, func(t *rapid.T) {
		table, twin := New[value](), make(map[string]*value)
		stays := add(table, "stays")
		twin["stays"] = stays

		var stop atomic.Bool
		var wrong atomic.Int64
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				for i := 0; !stop.Load(); i++ {
					key := names[i%len(names)]
					if v := table.Get(key); v != nil && v.key != key {
						wrong.Add(1)
					}
					if table.Get("stays") != stays {
						wrong.Add(1)
					}
					runtime.Gosched()
				}
			})
		}
		defer readers.Wait()
		defer stop.Store(true)

		keys := rapid.SampledFrom(names)
		many := rapid.IntRange(0, len(names))
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				twin[key] = add(table, key)
			},
			"delete": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				remove(table, key)
				delete(twin, key)
			},
			"put many": func(t *rapid.T) {
				for _, key := range names[:many.Draw(t, "n")] {
					twin[key] = add(table, key)
				}
			},
			"delete many": func(t *rapid.T) {
				for _, key := range names[:many.Draw(t, "n")] {
					remove(table, key)
					delete(twin, key)
				}
			},
			"": func(t *rapid.T) {
				for _, key := range names {
					p := table.Lock(key)
					locked := p.Get()
					p.Unlock()
					if got := table.Get(key); got != twin[key] || locked != got {
						t.Fatalf("key %s: %v, %v with the lock, want %v", key, got, locked, twin[key])
					}
				}
				if size(table) != len(twin) || wrong.Load() > 0 {
					t.Fatalf("%d keys, want %d; %d wrong values read", size(table), len(twin), wrong.Load())
				}
			},
		})
	})
}

// Keys whose hashes are equal, or lead to the same slot, do not get mixed up.
func TestCollidingKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s shard[value]
		s.init()
		twin := make(map[string]*value)
		part := func(i int) Part[value] { return Part[value]{&s, uint64(i%3) | leastHash, fmt.Sprint(i)} }
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				p := part(rapid.IntRange(0, 30).Draw(t, "key"))
				twin[p.key] = &value{p.key}
				p.Put(twin[p.key])
			},
			"delete": func(t *rapid.T) {
				p := part(rapid.IntRange(0, 30).Draw(t, "key"))
				p.Delete()
				delete(twin, p.key)
			},
			"": func(t *rapid.T) {
				for i := range 31 {
					if p := part(i); p.Get() != twin[p.key] {
						t.Fatalf("key %s: %v, want %v", p.key, p.Get(), twin[p.key])
					}
				}
				used := 0
				slots := *s.slots.Load()
				for i := range slots {
					if slots[i].hash.Load() != empty {
						used++
					}
				}
				if s.live != len(twin) || s.used != used || used >= len(slots) {
					t.Fatalf("%d live and %d used of %d, want %d and %d", s.live, s.used, len(slots), len(twin), used)
				}
			},
		})
	})
}

// One key after another passes through the table, or many at once: what was
// deleted does not take more room than what is live.
func TestDeletedKeysTakeLittleRoom(t *testing.T) {
	table := New[value]()
	check := func(live int) {
		t.Helper()
		for i := range table.shards {
			s := &table.shards[i]
			slots := len(*s.slots.Load())
			if s.used > max(2*s.live, minSlots*3/4) || slots > max(8*s.live, 2*minSlots) {
				t.Fatalf("%d keys: a shard has %d live, %d used, %d slots", live, s.live, s.used, slots)
			}
		}
		if n := size(table); n != live {
			t.Fatalf("%d keys, want %d", n, live)
		}
	}
	for i := range 10_000 {
		add(table, fmt.Sprint(i))
		remove(table, fmt.Sprint(i))
	}
	check(0)
	for i := range 10_000 {
		add(table, fmt.Sprint(i))
	}
	check(10_000)
	for i := range 10_000 {
		remove(table, fmt.Sprint(i))
		if i%1000 == 999 {
			check(10_000 - i - 1)
		}
	}
}

// Whoever holds a part when Barrier is called has added its key afterwards.
func TestBarrierWaitsForThoseWhoAdd(t *testing.T) {
	table := New[value]()
	var added atomic.Int64
	var all sync.WaitGroup
	locked := make(chan struct{})
	for i := range 8 {
		all.Go(func() {
			key := fmt.Sprint(i)
			p := table.Lock(key)
			locked <- struct{}{}
			runtime.Gosched()
			added.Add(1)
			p.Put(&value{key})
			p.Unlock()
		})
		<-locked
		table.Barrier()
		if n := added.Load(); n != int64(i+1) { // Len would wait, too
			t.Fatalf("%d keys, want %d", n, i+1)
		}
	}
	all.Wait()
}

func TestLookupsAllocateNothing(t *testing.T) {
	table := New[value]()
	v := add(table, "key")
	if n := testing.AllocsPerRun(1000, func() {
		if table.Get("key") != v || table.Get("other") != nil {
			t.Error("the wrong value")
		}
		p := table.Lock("key")
		p.Put(p.Get())
		p.Unlock()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGet(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table := New[value]()
			keys := make([]string, n)
			for i := range keys {
				keys[i] = fmt.Sprintf("tenant:%d", i)
				add(table, keys[i])
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if table.Get(keys[i]) == nil {
					b.Fatal("it is not there")
				}
				if i++; i == n {
					i = 0
				}
			}
		})
	}
}
