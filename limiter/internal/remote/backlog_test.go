// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// newHub is a Hub that runs what goes on in the background at once.
func newHub() *Hub {
	return NewHub(HubConfig{
		Log:        slog.New(slog.DiscardHandler),
		Background: func(f func()) { f() },
		Failures:   tally.NoopScope.Counter(""), FallbackChanged: func(stage.Instant, *share.Base, bool) {},
		RateRule: func(string) *dynamicconfig.Rule { return nil },
		Asking:   func(string, string) *Stage { return nil },
	})
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
		for _, s := range h.backlog.Stages() {
			if listed[s] && !lost.Swap(true) {
				t.Error("a stage is listed twice")
			}
			listed[s] = true
		}
	}
	adders.Wait()
}
