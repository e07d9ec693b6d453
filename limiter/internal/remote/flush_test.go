// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// slow takes a second for each call.
type slow struct{ *store }

func (c slow) Do(context.Context, stage.Operation) (stage.Outcome, error) {
	time.Sleep(time.Second)
	return stage.Outcome{OK: true}, nil
}

func (c slow) DoAll(_ context.Context, ops []stage.Operation, done func(i int, o stage.Outcome, err error)) {
	time.Sleep(time.Second)
	for i := range ops {
		done(i, stage.Outcome{OK: true}, nil)
	}
}

// newSlowHub is a Hub whose remote is slow.
func newSlowHub() *Hub {
	return NewHub(HubConfig{
		Log: slog.New(slog.DiscardHandler), Charges: map[string]stage.Charges{"exact": slow{new(store)}},
		Failures: tally.NoopScope.Counter(""), Skipped: tally.NoopScope.Counter(""), FallbackChanged: func(stage.Instant, *share.Base, bool) {},
		RateRule: func(string) *dynamicconfig.Rule { return nil },
		Asking:   func(string, string) *Stage { return nil },
	})
}

// noneUnsent fails t if one of stages has unsent charges.
func noneUnsent(t *testing.T, stages []*Stage) {
	t.Helper()
	unsent := 0
	for _, s := range stages {
		if s.HasUnsent() {
			unsent++
		}
	}
	if unsent > 0 {
		t.Errorf("%d of %d stages still have unsent charges", unsent, len(stages))
	}
}

// A host that stops sends the charges of all its keys, also if as many batches are under way as may.
func TestFlushSendsWhatIsOwedWhileManyBatchesAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSlowHub()
		var stages []*Stage
		for range maxBatches + 1 {
			s := newStage(t, new(store), h)
			s.enqueue(1)
			stages = append(stages, s)
			h.FlushLater(0)
		}
		h.Flush()
		noneUnsent(t, stages)
	})
}

// A host that stops sends the charges of many keys beside one that was not answered.
func TestFlushSendsWhatIsOwedBesideWhatIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSlowHub()
		var stages []*Stage
		for range 2 * maxBackground {
			s := newStage(t, new(store), h)
			s.enqueue(1)
			s.next() // has no answer
			s.enqueue(1)
			stages = append(stages, s)
		}
		h.Flush()
		noneUnsent(t, stages)
	})
}

// A host stops although callers go on with charges: it does not wait for those that come meanwhile.
func TestFlushEndsWhileChargesGoOn(t *testing.T) {
	for _, together := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newSlowHub()
			s := newStage(t, new(store), h)
			if s.remote = (slow{}); !together {
				h.config.Charges = nil
			}
			s.enqueue(1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			var caller sync.WaitGroup
			caller.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(time.Second / 2)
					s.ChargeLater(stage.Now(), 1)
				}
			})
			began := time.Now()
			if h.Flush(); time.Since(began) > time.Minute {
				t.Errorf("together: %t: the host stops after %v", together, time.Since(began))
			}
			cancel()
			caller.Wait()
			h.Join()
		})
	}
}

// A host that has stopped to report, and begins again, sends what was not answered at the end.
func TestAFlushInVainIsNotTheLast(t *testing.T) {
	h, remote := newHub(), &store{err: errAway}
	s := newStage(t, remote, h)
	s.enqueue(1)
	h.Flush()
	remote.err = nil
	h.FlushLater(stage.Now().Add(retryEvery))
	noneUnsent(t, []*Stage{s})
}

// Listeners hear when a remote answers the charges of a host that stops.
func TestFlushTellsWhenARemoteAnswers(t *testing.T) {
	h, remote := newHub(), &store{err: errAway}
	var at stage.Instant
	h.config.FallbackChanged = func(now stage.Instant, _ *share.Base, _ bool) { at = now }
	s := newStage(t, remote, h)
	s.Take(t.Context(), request(1))
	remote.err = nil
	before := stage.Now()
	if h.Flush(); at < before || at > stage.Now() {
		t.Errorf("the key has left its fallback at %v", at.Time())
	}
}

// twice says twice how each charge ended.
type twice struct{ *store }

func (c twice) DoAll(ctx context.Context, ops []stage.Operation, done func(i int, o stage.Outcome, err error)) {
	for i := range ops {
		o, err := c.Do(ctx, ops[i])
		done(i, o, err)
		done(i, o, err)
	}
}

// Charges that say twice how one ended cost no other one its answer.
func TestAnAnswerToAChargeCountsOnce(t *testing.T) {
	h, remote := newHub(), new(store)
	h.config.Charges = map[string]stage.Charges{"exact": twice{remote}}
	stages := []*Stage{newStage(t, remote, h), newStage(t, remote, h)}
	for _, s := range stages {
		s.enqueue(1)
	}
	h.FlushLater(0)
	noneUnsent(t, stages)
	if remote.sent != 2 {
		t.Errorf("2 charges were sent %d times", remote.sent)
	}
}

// unended carries out no charge until it is reported to stop.
type unended struct{}

func (unended) DoAll(ctx context.Context, _ []stage.Operation, _ func(i int, o stage.Outcome, err error)) {
	<-ctx.Done()
}

// A host that stops does not wait for ever for Charges of another package. What they did not
// answer stays in the outbox.
func TestFlushEndsThoughChargesDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newSlowHub()
		h.config.Charges = map[string]stage.Charges{"exact": unended{}}
		s := newStage(t, new(store), h)
		s.enqueue(1)
		began := time.Now()
		if h.Flush(); time.Since(began) > time.Minute || !s.HasUnsent() {
			t.Errorf("the host stops after %v, and has unsent charges: %t", time.Since(began), s.HasUnsent())
		}
	})
}
