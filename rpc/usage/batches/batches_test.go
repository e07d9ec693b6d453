// SPDX-License-Identifier: Apache-2.0

package batches

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// counting is a Memory of an owner that decides all keys, and how many tokens it took.
type counting struct {
	Memory
	t     testing.TB
	taken float64
}

// serve delivers takes at now.
func (c *counting) serve(now time.Duration, takes *usage.Takes) (again bool, err error) {
	c.t.Helper()
	for _, number := range takes.Withdrawn {
		rows, _ := c.Withdraw(now, takes.Caller, number)
		c.undo(rows)
	}
	_, again, err = c.Serve(context.Background(), now, takes, func() ([]usage.Take, *anypb.Any, error) {
		taken := usage.Taken{By: 1}
		for i := range takes.Rows {
			c.taken += takes.Rows[i].Tokens
			taken.Rows = append(taken.Rows, usage.Took{Decided: true, OK: true})
		}
		answer, err := usage.EncodeTaken(&taken, len(takes.Rows))
		return Opposites(takes.Rows, taken.Rows), answer, err
	}, c.undo)
	return again, err
}

func (c *counting) undo(rows []usage.Take) {
	for i := range rows {
		c.taken += rows[i].Tokens
	}
}

func (c *counting) send(now time.Duration, takes *usage.Takes) {
	c.t.Helper()
	if _, err := c.serve(now, takes); err != nil {
		c.t.Fatal(err)
	}
}

var one = []usage.Take{{Key: "k", Tokens: 1}}

func TestABatchTakesOnce(t *testing.T) {
	c := &counting{t: t}
	for n, row := range []struct {
		takes usage.Takes
		again bool
		err   error
		taken float64
	}{
		{usage.Takes{Caller: 1, Batch: 1}, false, nil, 1},
		{usage.Takes{Caller: 1, Batch: 1}, true, nil, 1},
		{usage.Takes{Caller: 2, Batch: 1}, false, nil, 2},                              // another caller's
		{usage.Takes{Batch: 1}, false, nil, 3},                                         // of no caller: never known again
		{usage.Takes{Batch: 1}, false, nil, 4},                                         //
		{usage.Takes{Caller: 1, Batch: 2, Withdrawn: []uint64{1}}, false, nil, 4},      // one comes, one goes
		{usage.Takes{Caller: 1, Batch: 1}, true, errWithdrawn, 4},                      // late
		{usage.Takes{Caller: 1, Batch: 3, Withdrawn: []uint64{1, 9}}, false, nil, 5},   // 1 is gone already
		{usage.Takes{Caller: 1, Batch: 9}, true, errWithdrawn, 5},                      // withdrawn before it came
		{usage.Takes{Caller: 1, Batch: 10, Settled: 10}, false, nil, 6},                //
		{usage.Takes{Caller: 1, Batch: 3, Settled: 3}, true, errSettled, 6},            // late
		{usage.Takes{Caller: 1, Batch: 11, Withdrawn: []uint64{3, 10}}, false, nil, 6}, // 3 is settled
	} {
		row.takes.Rows = one
		again, err := c.serve(0, &row.takes)
		if again != row.again || !errors.Is(err, row.err) || c.taken != row.taken {
			t.Fatalf("%d: again %v, %v, %v taken; want %v, %v, %v", n, again, err, c.taken, row.again, row.err, row.taken)
		}
	}
}

// A batch is delivered again, or withdrawn, while it is served.
func TestABatchThatIsUnderWayIsKnown(t *testing.T) {
	for _, ends := range []string{"is answered", "fails", "panics", "ends its goroutine", "is withdrawn"} {
		synctest.Test(t, func(t *testing.T) {
			c := &counting{t: t}
			takes := &usage.Takes{Caller: 1, Batch: 1, Rows: one}
			calls, undone, held := 0, 0.0, make(chan struct{})
			serve := func() ([]usage.Take, *anypb.Any, error) {
				if calls++; calls == 1 {
					<-held
					switch ends {
					case "fails":
						return Opposites(one, nil), nil, context.Canceled
					case "panics":
						panic("oh")
					case "ends its goroutine":
						runtime.Goexit()
					}
				}
				return Opposites(one, nil), &anypb.Any{Value: []byte{1}}, nil
			}
			undo := func(rows []usage.Take) {
				for i := range rows {
					undone += rows[i].Tokens
				}
			}
			errs := make(chan error, 2)
			for range 2 {
				go func() {
					err := errNoAnswer
					defer func() { errs <- err }()
					_, _, err = c.Serve(context.Background(), 0, takes, serve, undo)
				}()
				synctest.Wait()
			}
			if ends == "is withdrawn" {
				c.Withdraw(0, 1, 1)
			}
			close(held)
			failed := 0
			for range 2 {
				if err := <-errs; err != nil {
					failed++
				}
			}
			wantCalls, wantFailed, wantUndone := 1, 0, 0.0
			switch ends {
			case "fails":
				wantCalls, wantFailed, wantUndone = 2, 1, -1
			case "panics", "ends its goroutine":
				wantCalls, wantFailed = 2, 1
			case "is withdrawn":
				wantFailed, wantUndone = 2, -1
			}
			if calls != wantCalls || failed != wantFailed || undone != wantUndone {
				t.Errorf("%s: %d calls, %d errors, %v undone; want %d, %d, %v", ends, calls, failed, undone, wantCalls, wantFailed, wantUndone)
			}
		})
	}
}

func TestWhatIsRememberedOfCallersIsBounded(t *testing.T) {
	m := &counting{t: t}
	for batch := range uint64(3 * maxBatches) {
		m.send(0, &usage.Takes{Caller: 1, Batch: batch, Rows: one})
	}
	if got := len(m.callers[1].batches); got != maxBatches {
		t.Errorf("%d batches of one caller", got)
	}
	for caller := range uint64(maxCallers + 100) {
		m.send(0, &usage.Takes{Caller: caller + 1, Batch: 1, Rows: one})
	}
	if got := len(m.callers); got != maxCallers {
		t.Errorf("%d callers", got)
	}
	m.send(forgottenAfter/2, &usage.Takes{Caller: 1, Batch: 1 << 20, Rows: one})
	if len(m.callers) != maxCallers {
		t.Error("callers are forgotten too early")
	}
	m.send(5*forgottenAfter/4, &usage.Takes{Caller: 1, Batch: 1 << 21, Rows: one})
	if len(m.callers) != 1 {
		t.Error("callers that are gone are remembered")
	}
	m.checkBytes(t)
}

// checkBytes compares what is counted with what is there.
func (c *counting) checkBytes(t *testing.T) (bytes int) {
	t.Helper()
	for _, one := range c.callers {
		for _, b := range one.batches {
			bytes += b.size()
		}
	}
	if n := len(c.callers); n > maxCallers {
		t.Errorf("%d callers", n)
	}
	if bytes != c.bytes || bytes > maxBytes {
		t.Errorf("%d bytes are counted, and %d kept, of %d", c.bytes, bytes, maxBytes)
	}
	return bytes
}

// Callers that settle nothing and send as much as fits cost a bounded amount of
// memory, whoever they say that they are.
func TestWhatIsRememberedOfLargeBatchesIsBounded(t *testing.T) {
	m := &counting{t: t}
	rows := []usage.Take{{Key: "k", Tokens: 1}}
	for i := range 1024 {
		rows = append(rows, usage.Take{Key: fmt.Sprint("other:", i, strings.Repeat("x", 1000)), Tokens: 1})
	}
	for caller := range uint64(4) {
		for batch := range uint64(40) {
			m.send(0, &usage.Takes{Caller: caller + 1, Batch: batch, Rows: rows})
		}
	}
	if got := m.checkBytes(t); got < maxBytes/2 {
		t.Errorf("%d bytes are remembered of %d", got, maxBytes)
	}
	// A batch that is settled, withdrawn or gone makes room again.
	for caller := range uint64(4) {
		m.send(0, &usage.Takes{Caller: caller + 1, Batch: 100, Settled: 100, Rows: rows})
	}
	if got := m.checkBytes(t); got > 6<<20 {
		t.Errorf("%d bytes after all was settled", got)
	}
	for caller := range uint64(4) {
		m.send(0, &usage.Takes{Caller: caller + 1, Batch: 101, Withdrawn: []uint64{100}, Rows: one})
	}
	if got := m.checkBytes(t); got > 1<<20 {
		t.Errorf("%d bytes after all was withdrawn", got)
	}
	m.send(2*forgottenAfter, &usage.Takes{Caller: 9, Batch: 1, Rows: one})
	if m.checkBytes(t); len(m.callers) != 1 {
		t.Errorf("%d callers after all are gone", len(m.callers))
	}
}

// A flood of batches that nobody settles, of many callers or of one, does not keep the
// batches of others from being known.
func TestAFloodLeavesRoomForTheLatest(t *testing.T) {
	large := []usage.Take{}
	for i := range 1024 {
		large = append(large, usage.Take{Key: fmt.Sprint("other:", i, strings.Repeat("x", 1000)), Tokens: 1})
	}
	for name, flood := range map[string]func(m *counting, n uint64){
		"one caller":   func(m *counting, n uint64) { m.send(0, &usage.Takes{Caller: 1, Batch: n, Rows: large}) },
		"large":        func(m *counting, n uint64) { m.send(0, &usage.Takes{Caller: n + 1, Batch: 1, Rows: large}) },
		"many callers": func(m *counting, n uint64) { m.send(0, &usage.Takes{Caller: n + 1, Batch: 1, Rows: one}) },
		"withdrawn": func(m *counting, n uint64) {
			m.Withdraw(0, n+1, 1)
		},
	} {
		m := &counting{t: t}
		n := uint64(0)
		for range maxCallers + 1 { // or as many as there is room for
			if flood(m, n); name == "large" && n > 40 || name == "one caller" && n > 2*maxBatches {
				break
			}
			n++
		}
		m.checkBytes(t)
		honest := &usage.Takes{Caller: 1 << 40, Batch: 1, Rows: one}
		m.send(0, honest)
		for range 10 {
			n++
			flood(m, n)
		}
		if again, err := m.serve(0, honest); !again || err != nil {
			t.Errorf("%s: a batch is not known any more after ten of the flood: %v", name, err)
		}
		before := m.taken
		m.serve(0, &usage.Takes{Caller: 1 << 40, Batch: 2, Withdrawn: []uint64{1}})
		if m.taken != before-1 {
			t.Errorf("%s: a withdrawn batch gave %v back, want 1", name, before-m.taken)
		}
		m.checkBytes(t)
	}
}

// A Memory counts the bytes of what it keeps, not its number of rows.
func TestWhatIsRememberedIsCounted(t *testing.T) {
	heap := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	// Rows that moved nothing take no room.
	took := make([]usage.Took, rpc.MaxTakes)
	rows := make([]usage.Take, rpc.MaxTakes)
	for i := range rows {
		rows[i], took[i] = usage.Take{Key: "k", Tokens: 1}, usage.Took{Decided: true, Retry: 1}
	}
	took[rpc.MaxTakes/2] = usage.Took{Decided: true, OK: true}
	if undo := Opposites(rows, took); len(undo) != 1 || cap(undo) != 1 || undo[0].Tokens != -1 {
		t.Errorf("undone by %+v, with room for %d", undo, cap(undo))
	}
	// Batches count with the rows that would undo them.
	for i := range rows {
		rows[i].Tokens = float64(1 + i%2)
	}
	b := &counting{t: t}
	before := heap()
	for batch := range uint64(20) {
		b.send(0, &usage.Takes{Caller: 1, Batch: batch, Rows: rows})
	}
	if kept := heap() - before; kept > 2*b.checkBytes(t) {
		t.Errorf("of batches that took %d KiB are kept, and %d KiB counted", kept>>10, b.bytes>>10)
	}
	runtime.KeepAlive(b)
	// Batches that are withdrawn before they come count too.
	b = &counting{t: t}
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
	if kept := heap() - before; kept > 2*b.checkBytes(t) {
		t.Errorf("of withdrawn batches %d KiB are kept, and %d KiB counted", kept>>10, b.bytes>>10)
	}
	runtime.KeepAlive(b)
	// So does what is left of callers that had many batches, and settled all but the last.
	b = &counting{t: t}
	before = heap()
	for caller := range uint64(500) {
		for batch := range uint64(maxBatches) {
			takes := &usage.Takes{Caller: caller + 1, Batch: batch, Rows: one}
			if batch == maxBatches-1 {
				takes.Settled = batch
			}
			b.send(0, takes)
		}
	}
	if kept := heap() - before; kept > 2*b.checkBytes(t) {
		t.Errorf("of batches that are settled %d KiB are kept, and %d KiB counted", kept>>10, b.bytes>>10)
	}
	runtime.KeepAlive(b)
}
