// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"sync/atomic"
	"testing"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/stage"
)

// word takes tokens from one atomic word, as a local bucket does.
type word struct {
	fixed
	_      [64]byte
	tokens atomic.Int64
	_      [64]byte
}

func (w *word) Take(_ context.Context, r stage.Request) (v stage.Verdict, _ stage.Receipt) {
	for {
		left := w.tokens.Load()
		if left < r.N {
			v.Reason = stage.Limited
			return v, stage.Receipt{}
		}
		if w.tokens.CompareAndSwap(left, left-r.N) {
			return v, stage.Receipt{}
		}
	}
}

func newWord() *word {
	w := new(word)
	w.tokens.Store(1 << 62)
	return w
}

// BenchmarkTake is a decision of a Pair beside one of its stages without it,
// and one of x/time/rate.
func BenchmarkTake(b *testing.B) {
	request := stage.Request{N: 1, Kind: stage.Final}
	run := func(name string, take func()) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				take()
			}
		})
		b.Run(name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					take()
				}
			})
		})
	}
	bare := rate.NewLimiter(1e12, 1e9)
	run("x-time-rate", func() { bare.Allow() })
	first, second := undisclosed(newWord()), undisclosed(newWord())
	run("one-stage", func() { first.Take(context.Background(), request) })
	run("two-stages", func() {
		first.Take(context.Background(), request)
		second.Take(context.Background(), request)
	})
	p := undisclosed(NewPair(0, newWord(), newWord(), oldShadowNew, noBackground))
	run("pair", func() { p.Take(context.Background(), request) })
	alone := undisclosed(NewPair(0, newWord(), newWord(), old, noBackground))
	run("pair-without-shadow", func() { alone.Take(context.Background(), request) })
	recorded := undisclosed(NewPair(0, newWord(), prompt{newBucket(b, 1, 1)}, old, noBackground))
	run("pair-that-records", func() { recorded.Take(context.Background(), request) })
	run("pair-settled", func() {
		_, receipt := p.Take(context.Background(), stage.Request{N: 1})
		p.Settle(0, receipt, 1)
	})
	g := newGroup(moving(b, oldShadowNew), 1)
	run("key-of-a-group", func() { g.For("k").Allow() })
}

// undisclosed hides the type of s from the compiler, which would inline its
// methods.
//
//go:noinline
func undisclosed(s stage.Stage) stage.Stage { return s }

func TestAFinalTakeAllocatesNothing(t *testing.T) {
	for _, mode := range modes {
		p := NewPair(0, newWord(), newWord(), mode, noBackground)
		if n := testing.AllocsPerRun(1000, func() { allow(p, 0, 1) }); n != 0 {
			t.Errorf("%v: %v allocations", mode, n)
		}
		g := newGroup(moving(t, mode), 1)
		if n := testing.AllocsPerRun(1000, func() { g.For("k").Allow() }); n != 0 {
			t.Errorf("%v: %v allocations for a key of a Group", mode, n)
		}
	}
}
