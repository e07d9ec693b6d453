// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// newHub is a Hub that runs what goes on in the background at once.
func newHub() *Hub {
	return NewHub(HubConfig{
		Log:        slog.New(slog.DiscardHandler),
		Background: func(f func()) { f() },
		Failures:   tally.NoopScope.Counter(""), Fell: func(stage.Instant, *share.Base, bool) {},
	})
}

// A Stage that begins to owe something while the Hub tidies its list is paid for by the next
// FlushLater, and is listed once.
func TestAStageThatOwesIsListedOnce(t *testing.T) {
	h, remote := newHub(), new(store)
	type debtor struct {
		*Stage
		began, ended atomic.Int64 // calls of owe
	}
	debtors := make([]*debtor, 8)
	var adders sync.WaitGroup
	var running atomic.Int64
	var lost atomic.Bool
	for i := range debtors {
		d := &debtor{Stage: newStage(t, remote, h)}
		debtors[i] = d
		running.Add(1)
		adders.Go(func() {
			defer running.Add(-1)
			for range 5000 {
				d.began.Add(1)
				d.owe(1)
				d.ended.Add(1)
				for d.Owes() && !lost.Load() {
					runtime.Gosched()
				}
			}
		})
	}
	for running.Load() > 0 {
		calls := make([]int64, len(debtors)) // that have ended; -1 while one is under way
		for i, d := range debtors {
			if calls[i] = d.ended.Load(); d.began.Load() != calls[i] {
				calls[i] = -1
			}
		}
		h.FlushLater(0)
		for i, d := range debtors {
			if d.Owes() && d.began.Load() == calls[i] && !lost.Swap(true) {
				t.Error("what a stage owes was not sent")
			}
		}
		listed := make(map[*Stage]bool)
		for _, s := range h.owing.stages() {
			if listed[s] && !lost.Swap(true) {
				t.Error("a stage is listed twice")
			}
			listed[s] = true
		}
	}
	adders.Wait()
}

// A Stage that has left its key is listed for a time, and not with any number of others.
func TestStagesThatHaveLeftOweForATime(t *testing.T) {
	h := newHub()
	here := newStage(t, new(store), h)
	here.owe(1)
	var others []*Stage
	for range maxOwing + 10 {
		others = append(others, New(here.Rate, here.Link))
	}
	for _, left := range others {
		left.Leave()
		left.owe(1)
	}
	for _, row := range []struct {
		at   stage.Instant
		want int
	}{{0, maxOwing + 1}, {stage.Instant(owesFor) - 1, maxOwing + 1}, {stage.Instant(owesFor), 1}} {
		if h.owing.tidy(row.at); len(h.owing.stages()) != row.want {
			t.Errorf("at %d, %d stages are listed, want %d", row.at, len(h.owing.stages()), row.want)
		}
	}
}
