// SPDX-License-Identifier: Apache-2.0

package batches

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// counting is a Memory of an owner that decides all keys, and how many tokens it took.
type counting struct {
	Memory
	t testing.TB

	mu    sync.Mutex // protects following field
	taken float64
}

func newCounting(t testing.TB) *counting {
	c := &counting{t: t}
	c.Take = func(_ time.Duration, _ string, takes *usage.Takes, taken *usage.Taken) {
		c.mu.Lock()
		defer c.mu.Unlock()
		taken.By, taken.Rows = 1, taken.Rows[:0]
		for i := range takes.Rows {
			c.taken += takes.Rows[i].Tokens
			taken.Rows = append(taken.Rows, usage.Took{Decided: true, OK: true})
		}
	}
	c.Undo = func(_ time.Duration, rows []usage.Take) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i := range rows {
			c.taken -= rows[i].Tokens
		}
	}
	return c
}

// send delivers takes at now.
func (c *counting) send(now time.Duration, takes *usage.Takes) {
	c.t.Helper()
	payload, err := usage.EncodeTakes(takes)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, _, err := c.Serve(now, "host", payload); err != nil {
		c.t.Fatal(err)
	}
}

var one = []usage.Take{{Key: "k", Tokens: 1}}

func TestWhatIsRememberedOfCallersIsBounded(t *testing.T) {
	m := newCounting(t)
	for batch := range uint64(3 * maxBatches) {
		m.send(0, &usage.Takes{Caller: 1, Batch: batch, Rows: one})
	}
	if got := len(m.all[1].batches); got != maxBatches {
		t.Errorf("%d batches of one caller", got)
	}
	for caller := range uint64(maxCallers + 100) {
		m.send(0, &usage.Takes{Caller: caller + 1, Batch: 1, Rows: one})
	}
	if got := len(m.all); got != maxCallers {
		t.Errorf("%d callers", got)
	}
	m.Expire(callerGone / 2)
	if len(m.all) != maxCallers {
		t.Error("callers are forgotten too early")
	}
	m.Expire(2 * callerGone)
	if len(m.all) != 0 {
		t.Error("callers that are gone are remembered")
	}
}

// A caller that was silent for long sends a batch while it is being forgotten. A
// forgotten caller would not keep the batch, which may come again.
func TestABatchIsNotKeptWithAForgottenCaller(t *testing.T) {
	m := newCounting(t)
	found := m.find(0, 1)
	m.Expire(2 * callerGone)
	if found.lock() {
		t.Error("a forgotten caller is used")
	}
	if c := m.enter(2*callerGone, 1); c == nil || c == found {
		t.Errorf("the next caller of that number is %p, after %p", c, found)
	}
}

// Callers that settle nothing and send as much as fits cost a bounded amount of
// memory, whoever they say that they are.
func TestWhatIsRememberedOfLargeBatchesIsBounded(t *testing.T) {
	m := newCounting(t)
	rows := []usage.Take{{Key: "k", Tokens: 1}}
	for i := range 1024 {
		rows = append(rows, usage.Take{Key: fmt.Sprint("other:", i, strings.Repeat("x", 1000)), Tokens: 1})
	}
	remembered := func() (bytes int64) {
		for _, c := range m.all {
			for _, b := range c.batches {
				for i := range b.takes.Rows {
					bytes += int64(len(b.takes.Rows[i].Key))
				}
			}
		}
		return bytes
	}
	for caller := range uint64(4) {
		for batch := range uint64(40) {
			m.send(0, &usage.Takes{Caller: caller + 1, Batch: batch, Rows: rows})
		}
	}
	if got := remembered(); got > maxRemembered || got < maxRemembered/2 {
		t.Errorf("%d bytes of keys are remembered of %d", got, maxRemembered)
	}
	// A batch that is settled, withdrawn or gone makes room again.
	for caller := range uint64(4) {
		m.send(0, &usage.Takes{Caller: caller + 1, Batch: 100, Settled: 100, Rows: rows})
	}
	if got, counted := remembered(), m.remembered.Load(); got > 5<<20 || counted < got || counted > 2*got {
		t.Errorf("%d bytes of keys, %d counted, after all was settled", got, counted)
	}
	m.Expire(2 * callerGone)
	if got := m.remembered.Load(); got != 0 || len(m.all) != 0 {
		t.Errorf("%d bytes counted of no caller", got)
	}
}

// A Memory counts the bytes of what it keeps, not its number of rows.
func TestWhatIsRememberedIsCounted(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	// A large message leaves no large memory behind with a small one.
	a := newCounting(t)
	large := &usage.Takes{Rows: make([]usage.Take, rpc.MaxTakes)}
	for i := range large.Rows {
		large.Rows[i] = usage.Take{Key: "k", Tokens: 1}
	}
	before := heap()
	for i := range uint64(300) {
		a.send(0, large)
		a.send(0, &usage.Takes{Caller: 1 + i/100, Batch: i%100 + 1, Rows: one})
	}
	if kept, counted := heap()-before, a.remembered.Load(); kept > 2<<20 || counted < 300*int64(batchBytes) {
		t.Errorf("of 300 batches of one row %d KiB are kept, and %d KiB counted", kept>>10, counted>>10)
	}
	runtime.KeepAlive(a)
	// Batches that are withdrawn before they come count too.
	b := newCounting(t)
	before = heap()
	for caller := range uint64(500) {
		for batch := range uint64(2) {
			takes := &usage.Takes{Caller: caller + 1, Batch: 1000 + batch}
			for w := range uint64(rpc.MaxWithdrawn) {
				takes.Withdrawn = append(takes.Withdrawn, batch*100+w+1)
			}
			b.send(0, takes)
		}
	}
	if kept, counted := heap()-before, b.remembered.Load(); kept > 2*counted {
		t.Errorf("of withdrawn batches %d KiB are kept, and %d KiB counted", kept>>10, counted>>10)
	}
	runtime.KeepAlive(b)
}
