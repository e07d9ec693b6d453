// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"log/slog"
	"sync"
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

// What a Stage owes is in the Hub's list once, also if it begins to owe while the Hub looks.
func TestAStageThatOwesIsListedOnce(t *testing.T) {
	h, remote := newHub(), new(store)
	stages := make([]*Stage, 8)
	for i := range stages {
		stages[i] = newStage(t, remote, h)
	}
	var adders sync.WaitGroup
	for _, s := range stages {
		adders.Go(func() {
			for range 2000 {
				s.owe(1)
			}
		})
	}
	for range 2000 {
		for _, s := range stages {
			if s.begin() { // as after an answer
				s.next()
				s.owed.Done()
				s.owed.End()
			}
		}
		h.owing.tidy(0)
	}
	adders.Wait()

	listed := make(map[*Stage]int)
	for _, s := range h.owing.stages() {
		listed[s]++
	}
	for _, s := range stages {
		if n := listed[s]; n > 1 || n == 0 && s.Owes() {
			t.Errorf("a stage that owes: %t is listed %d times", s.Owes(), n)
		}
	}
	h.FlushLater(0)
	if n := len(h.owing.stages()); n != 0 {
		t.Errorf("%d stages are listed that owe nothing", n)
	}
}

// A Stage that has left its key is listed for a time, and not with any number of others.
func TestStagesThatHaveLeftOweForATime(t *testing.T) {
	h := newHub()
	here := newStage(t, new(store), h)
	here.owe(1)
	for range maxOwing + 10 {
		left := New(here.Rate, here.Link)
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
