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
		Failures:   tally.NoopScope.Counter(""), FallbackChanged: func(stage.Instant, *share.Base, bool) {},
	})
}

// A Hub keeps nothing for Stages that have sent everything, and no map of those whose keys
// decide by them.
func TestABacklogIsNoLargerThanItMust(t *testing.T) {
	h, remote := newHub(), new(store)
	stages := make([]*Stage, 2000)
	for i := range stages {
		stages[i] = newStage(t, remote, h)
		stages[i].enqueue(1)
	}
	if len(h.backlog.gone) != 0 {
		t.Error("a Stage whose key decides by it is among those that have left theirs")
	}
	for _, s := range stages[:1000] {
		s.Leave()
	}
	if gone := h.backlog.gone; len(gone) != 1 || h.unsentBefore(stages[1000]) != stages[999] {
		t.Errorf("%d accounts of Stages that have left one key", len(gone))
	}
	h.FlushLater(stage.Now())
	h.FlushLater(stage.Now())
	if b := &h.backlog; len(b.entries) != 0 || cap(b.entries) != 0 || b.gone != nil {
		t.Errorf("%d Stages are listed, with room for %d, and a map of %d", len(b.entries), cap(b.entries), len(b.gone))
	}
}

// A Stage that enqueues a charge while the Hub tidies its list is paid for by the next
// FlushLater, and is listed once.
func TestAStageThatOwesIsListedOnce(t *testing.T) {
	h, remote := newHub(), new(store)
	type backlogged struct {
		*Stage
		began, ended atomic.Int64 // calls of enqueue
	}
	debtors := make([]*backlogged, 8)
	var adders sync.WaitGroup
	var running atomic.Int64
	var lost atomic.Bool
	for i := range debtors {
		d := &backlogged{Stage: newStage(t, remote, h)}
		debtors[i] = d
		running.Add(1)
		adders.Go(func() {
			defer running.Add(-1)
			for range 5000 {
				d.began.Add(1)
				d.enqueue(1)
				d.ended.Add(1)
				for d.HasUnsent() && !lost.Load() {
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
			if d.HasUnsent() && d.began.Load() == calls[i] && !lost.Swap(true) {
				t.Error("the charge of a stage was not sent")
			}
		}
		listed := make(map[*Stage]bool)
		for _, s := range h.backlog.stages() {
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
	here.enqueue(1)
	var others []*Stage
	for range maxBacklog + 10 {
		others = append(others, New(here.Rate, here.Link))
	}
	for _, left := range others {
		left.Leave()
		left.enqueue(1)
	}
	for _, row := range []struct {
		at   stage.Instant
		want int
	}{{0, maxBacklog + 1}, {stage.Instant(sendsFor) - 1, maxBacklog + 1}, {stage.Instant(sendsFor), 1}} {
		if h.backlog.tidy(row.at); len(h.backlog.stages()) != row.want {
			t.Errorf("at %d, %d stages are listed, want %d", row.at, len(h.backlog.stages()), row.want)
		}
	}
}
