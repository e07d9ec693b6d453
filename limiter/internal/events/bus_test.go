// SPDX-License-Identifier: Apache-2.0

package events

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) { waittest.Main(m) }

// run starts Run; the result ends it.
func run(b *Bus[int], log *slog.Logger, dropped func(int64)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.Run(ctx, log, dropped)
	}()
	return func() { cancel(); <-ended }
}

// Of two Runs at a time, one carries events, and the other does so from when that has ended.
func TestASecondRunTakesOverFromTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New[int]()
		var calls atomic.Int32
		var got []int
		b.Listen(func(batch []int) {
			if calls.Add(1) > 1 {
				t.Error("a listener is called twice at a time")
			}
			got = append(got, batch...)
			time.Sleep(20 * time.Millisecond) // the next event may come meanwhile
			calls.Add(-1)
		})
		none := func(n int64) { t.Errorf("%d dropped", n) }
		first := run(b, slog.New(slog.DiscardHandler), none)
		synctest.Wait()
		second, third := run(b, slog.New(slog.DiscardHandler), none), run(b, slog.New(slog.DiscardHandler), none)
		third()
		for i := range 100 {
			if i == 50 {
				first()
			}
			b.Send(i)
			time.Sleep(time.Duration(1+i%2*50) * 10 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		second()
		for i, n := range got {
			if i != n {
				t.Fatalf("got %v", got)
			}
		}
		if len(got) != 100 {
			t.Errorf("%d events of 100", len(got))
		}
	})
}

func TestAllListenersGetAllEventsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New[int]()
		var got [2][]int
		for i := range got {
			b.Listen(func(batch []int) {
				if len(batch) > batchSize {
					t.Errorf("a batch of %d", len(batch))
				}
				got[i] = append(got[i], batch...)
			})
		}
		stop := run(b, slog.New(slog.DiscardHandler), func(n int64) { t.Errorf("%d dropped", n) })
		var want []int
		send := func(n int) {
			for range n {
				b.Send(len(want))
				want = append(want, len(want))
			}
		}
		for _, n := range []int{1, 3000, 1} {
			send(n)
			time.Sleep(time.Second)
			synctest.Wait() // also for the writes to got
			for i := range got {
				if !slices.Equal(got[i], want) {
					t.Fatalf("listener %d got %d events, want %d", i, len(got[i]), len(want))
				}
			}
		}
		send(300)
		stop()
		for i := range got {
			if !slices.Equal(got[i], want) {
				t.Errorf("at the end listener %d got %d events, want %d", i, len(got[i]), len(want))
			}
		}
	})
}

// A listener that blocks loses its own events, and one that panics goes on.
func TestAStuckListenerLosesOnlyItsOwnEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New[int]()
		blocked := make(chan struct{})
		var good, dropped atomic.Int64
		var log bytes.Buffer
		b.Listen(func([]int) { <-blocked })
		b.Listen(func(batch []int) {
			good.Add(int64(len(batch)))
			panic("boo")
		})
		stop := run(b, slog.New(slog.NewTextHandler(&log, nil)), func(n int64) { dropped.Add(n) })
		const rounds, each = 40, 1000
		for range rounds {
			for i := range each {
				b.Send(i)
			}
			time.Sleep(5 * time.Millisecond)
		}
		if got := good.Load(); got != rounds*each {
			t.Errorf("the good listener got %d events, want %d", got, rounds*each)
		}
		if got, least := dropped.Load(), int64(rounds*each-(backlog+2)*batchSize); got < least || got > rounds*each {
			t.Errorf("%d dropped, want at least %d", got, least)
		}
		close(blocked)
		stop()
		if !strings.Contains(log.String(), "panic=boo") {
			t.Errorf("logged %q", log.String())
		}
	})
}

func TestWhatDoesNotFitIsDroppedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New[int]()
		var got []int
		var dropped []int64
		b.Listen(func(batch []int) { got = append(got, len(batch)) })
		for i := range capacity + 5 { // nobody runs it
			b.Send(i)
		}
		stop := run(b, slog.New(slog.DiscardHandler), func(n int64) { dropped = append(dropped, n) })
		stop()
		// The listener may miss batches, because all come at once.
		if len(dropped) == 0 || dropped[0] < 5 {
			t.Errorf("%d dropped, want at least 5", dropped)
		}
		total := int64(0)
		for _, n := range got {
			total += int64(n)
		}
		for _, n := range dropped {
			total += n
		}
		if total != capacity+5 {
			t.Errorf("%d events got and dropped, want %d", total, capacity+5)
		}
	})
}

// An event that does not fit into the queue is missed by each listener.
func TestAnEventThatAllMissCountsForEach(t *testing.T) {
	b := New[int]()
	var got [3]atomic.Int64
	for i := range got {
		b.Listen(func(batch []int) { got[i].Add(int64(len(batch))) })
	}
	const sent = capacity + 5
	for i := range sent {
		b.Send(i)
	}
	var dropped int64
	stop := run(b, slog.New(slog.DiscardHandler), func(n int64) { dropped += n })
	stop()
	for i := range got {
		dropped += got[i].Load()
	}
	if dropped != 3*sent {
		t.Errorf("%d events were carried or counted as dropped, want %d", dropped, 3*sent)
	}
}

func TestSendAllocatesNothing(t *testing.T) {
	b := New[[10]string]()
	if n := testing.AllocsPerRun(1000, func() { b.Send([10]string{"k"}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkSend(b *testing.B) {
	type event [8]int
	for _, listeners := range []int{1, 3} {
		b.Run(fmt.Sprint(listeners), func(b *testing.B) {
			bus := New[event]()
			var got atomic.Int64
			for range listeners {
				bus.Listen(func(batch []event) { got.Add(int64(len(batch))) })
			}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				bus.Run(ctx, slog.Default(), func(int64) {})
			}()
			b.ReportAllocs()
			for b.Loop() {
				bus.Send(event{})
			}
			b.StopTimer()
			cancel()
			<-ended
			b.ReportMetric(float64(got.Load())/float64(b.N)/float64(listeners), "received")
		})
	}
}
