// SPDX-License-Identifier: Apache-2.0

package events

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// naive is a ring for one goroutine: a slice.
type naive struct {
	size   int
	events []int
}

func (r *naive) put(e int) bool {
	if len(r.events) == r.size {
		return false
	}
	r.events = append(r.events, e)
	return true
}

func (r *naive) take(n int) []int {
	n = min(n, len(r.events))
	taken := r.events[:n]
	r.events = r.events[n:]
	return taken
}

func TestRingDoesWhatASliceDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 1 << rapid.IntRange(0, 4).Draw(t, "bits")
		r, twin, next := newRing[int](size), naive{size: size}, 0
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				for range rapid.IntRange(1, 20).Draw(t, "n") {
					next++
					if got, want := r.put(&next), twin.put(next); got != want {
						t.Fatalf("put %d: %v, want %v", next, got, want)
					}
				}
			},
			"take": func(t *rapid.T) {
				n := rapid.IntRange(0, 20).Draw(t, "n")
				if got, want := r.take(make([]int, 0, n)), twin.take(n); !slices.Equal(got, want) {
					t.Fatalf("take %d: %v, want %v", n, got, want)
				}
			},
			"": func(t *rapid.T) {
				if r.ready() != (len(twin.events) > 0) {
					t.Fatalf("ready: %v, with %v", r.ready(), twin.events)
				}
			},
		})
	})
}

// The ring loses nothing that it took, and keeps the order of each writer.
func TestRingWithManyWriters(t *testing.T) {
	type event struct{ writer, i int }
	r := newRing[event](64)
	const writers, each = 4, 20_000
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				for !r.put(&event{w, i}) {
					runtime.Gosched()
				}
			}
		})
	}
	var next [writers]int
	for got := 0; got < writers*each; {
		batch := r.take(make([]event, 0, 10))
		if got += len(batch); len(batch) == 0 {
			runtime.Gosched()
		}
		for _, e := range batch {
			if e.i != next[e.writer] {
				t.Fatalf("writer %d: %d, want %d", e.writer, e.i, next[e.writer])
			}
			next[e.writer]++
		}
	}
	all.Wait()
}
