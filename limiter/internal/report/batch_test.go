// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math/bits"
	"testing"
	"unsafe"

	"github.com/headgate/headgate/limiter/stage"
)

// keys makes so many, 0 and on.
func (h *host) keys(now stage.Instant, n int) *host {
	for i := range n {
		h.use(now, fmt.Sprint(i), 0)
	}
	return h
}

// A round looks at the demand of many keys under one lock, some at a time. The report of a
// key does not depend on where among them the key stands.
func TestEveryKeysDemandIsEstimatedOnce(t *testing.T) {
	const keys = 3*together + 1
	h := newHost(t, 1e6, reportsEarly, 1).keys(0, keys)
	var now stage.Instant
	for round := range 4 {
		now += 3 * second
		for _, s := range h.live {
			take(s, now-second, 100+5*round)
			s.pulse.demand.Tick(float64(100+5*round)/3, 1) // as if it had come evenly
		}
		said := h.granted(now, h.report(now), 0.5, 1e5)
		if len(said) != 1 || said[0].Len() != keys {
			t.Fatalf("round %d: %d batches", round, len(said))
		}
		for i, wants := range said[0].Wants {
			if first := said[0].Wants[0]; wants != first || !(wants > 0) {
				t.Fatalf("round %d: key %d wants %v, and the first, which did the same, %v", round, i, wants, first)
			}
		}
	}
}

// round uses the first keys once, at so much cost, and answers the report.
func (h *host) round(now stage.Instant, keys, cost int) *Batch {
	h.t.Helper()
	for _, s := range h.live[:keys] {
		s.Rate.Take(h.t.Context(), stage.Request{Now: now - second, N: int64(cost), Kind: stage.Final})
	}
	batches := h.report(now)
	if len(batches) != 1 || batches[0].Usage.Len() < keys {
		h.t.Fatalf("%d batches", len(batches))
	}
	b := batches[0]
	for i, key := range b.Usage.Keys[:keys] {
		if key != fmt.Sprint(i) || b.Usage.Allowed[i] != int64(cost) || b.Usage.Rejected[i] != 0 {
			h.t.Errorf("row %d: %q used %d, want %d", i, key, b.Usage.Allowed[i], cost)
		}
	}
	if n := b.Usage.Len(); len(b.Usage.Wants) != n || (len(b.Usage.Cost) == n) != (cost > 1) {
		h.t.Errorf("%d wants and %d costs of %d keys that cost %d", len(b.Usage.Wants), len(b.Usage.Cost), n, cost)
	}
	h.granted(now, batches, 0.5, 50)
	return b
}

func TestTheNextReportTakesTheMemoryOfABatchThatIsDone(t *testing.T) {
	const keys = 3*together + 1
	h := newHost(t, 1e6, reportsEarly, 1).keys(0, keys)
	first := h.round(3*second, keys, 1)
	memory := &first.Usage.Keys[0]
	h.Done(first)
	again := h.round(6*second, keys, 1)
	if &again.Usage.Keys[0] != memory {
		t.Error("the memory of the first batch was not taken again")
	}
	if other := h.round(9*second, keys, 1); &other.Usage.Keys[0] == memory {
		t.Error("a batch that is not done lost its memory")
	}
	h.Done(again)
	if costly := h.round(12*second, keys, 3); &costly.Usage.Keys[0] != memory {
		t.Error("the memory was not taken a third time")
	}
}

// A host with 100,000 keys keeps so many rows, and their columns, from one report to the next.
func TestABatchHasLittleRoomUnused(t *testing.T) {
	if size := unsafe.Sizeof(row{}); bits.UintSize == 64 && size > 40 {
		t.Errorf("a row has %d bytes", size)
	}
	const keys = 2100
	h := newHost(t, 1e6, reportsEarly, 1).keys(0, keys)
	b := h.round(3*second, keys, 1)
	if most := keys + keys/4 + together; cap(b.rows) > most || cap(b.room.Keys) > most || b.room.Cost != nil {
		t.Errorf("room for %d rows, %d keys and %d costs of %d keys", cap(b.rows), cap(b.room.Keys), cap(b.room.Cost), keys)
	}
}

func TestABatchThatIsDoneIsNotAnswered(t *testing.T) {
	h := newHost(t, 1e6, reportsEarly, 1).keys(0, 2)
	b := h.round(3*second, 2, 1)
	h.Done(b)
	h.Done(b)
	if err := h.Apply(4*second, b, []int{1}, grants(1, 0.5, 50), 1); err == nil {
		t.Error("it was answered")
	}
	h.Fail(4*second, b, []int{1})
	h.round(6*second, 2, 1)
}

func TestMemoryThatNoReportTakesIsGivenUp(t *testing.T) {
	const keys = 100
	h := newHost(t, 1e6, reportsEarly, 1).keys(0, keys)
	h.Done(h.round(3*second, keys, 1))
	if b := h.reuse["lending"]; b == nil || cap(b.rows) < keys {
		t.Fatal("nothing was kept")
	}
	h.live = nil
	if h.report(6 * second); len(h.reuse) > 0 {
		t.Errorf("%d rows are kept", cap(h.reuse["lending"].rows))
	}
}

// A report that is shorter than the one before keeps nothing of that alive.
func TestRowsAfterTheLastAreCleared(t *testing.T) {
	const keys = 100
	h := newHost(t, 1e6, reportsEarly, 1).keys(0, keys)
	h.Done(h.round(3*second, keys, 1))
	b := h.round(6*second, keys/2, 1)
	// Those that nobody used report once more that they want less, then nothing.
	for now := 9 * second; b.Usage.Len() > keys/2; now += 3 * second {
		h.Done(b)
		b = h.round(now, keys/2, 1)
	}
	for i := b.Usage.Len(); i < cap(b.rows); i++ {
		if b.rows[:i+1][i].subject != nil {
			t.Fatalf("row %d of %d still has its Subject", i, b.Usage.Len())
		}
	}
	for i, key := range b.room.Keys[b.Usage.Len():] {
		if key != "" {
			t.Fatalf("row %d of %d still has its key", b.Usage.Len()+i, b.Usage.Len())
		}
	}
	if cap(b.rows) < keys {
		t.Error("that was other memory")
	}
}
