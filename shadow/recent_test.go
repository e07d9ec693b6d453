// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

// ledger is a Remote that grants all, and notes what it is asked and charged.
type ledger struct {
	mu             sync.Mutex // protects following fields
	asked, charged float64
}

func (l *ledger) Take(_ context.Context, t limiter.Take) (limiter.Taken, error) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if t.Charge {
		l.charged += t.N
	} else {
		l.asked += t.N
	}
	return limiter.Taken{OK: true, Left: 5}, nil
}

func (l *ledger) take() (asked, charged float64) {
	l.mu.Lock()
	defer l.mu.Unlock()

	asked, charged = l.asked, l.charged
	l.asked, l.charged = 0, 0
	return asked, charged
}

// What a bucket elsewhere was not asked, it is charged with when it is asked
// next, as far as that is not too long ago; what it was asked, it is not.
func TestABucketElsewhereHearsOfWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := new(ledger)
		s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{
			Key: "k", Limit: 10, Burst: 100, Migration: &dynamicconfig.Migration{From: "even", To: "exact", Mode: old},
		}}}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		var made *Limiter
		g := limiter.NewGroup(s, 1, limiter.WithRemote("exact", remote), limiter.WithMigration(func(o, n limiter.Stepper, mode dynamicconfig.Mode) limiter.Migrator {
			made = FromSteps(o, n, mode)
			return made
		}))
		k := g.For("k")
		for i, step := range []struct {
			after          time.Duration
			mode           dynamicconfig.Mode
			asked, charged float64 // before the events that follow
		}{
			{0, oldShadowNew, 0, 6},
			{0, newShadowOld, 6, 0},
			{0, onlyNew, 6, 0},
			{time.Second, old, 6, 0},
			{time.Second, onlyNew, 0, 6 + 4*6}, // of 10 s, which all of this is within
			{time.Hour, old, 6, 0},
			{12 * time.Second, onlyNew, 0, 0}, // which is longer than 10 s ago
			{0, disabled, 6, 0},
			{time.Hour, onlyNew, 0, 0}, // and nothing was limited
		} {
			// One of each kind.
			k.Allow()
			k.Decide(t.Context(), 1, 0)
			k.Reserve()
			k.Charge(1)
			if err := k.WaitN(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			time.Sleep(step.after)
			synctest.Wait()
			before, owed := remote.take()
			made.SetMode(limiter.Now(), step.mode)
			synctest.Wait()
			_, charged := remote.take()
			// Charge(1) itself comes as a charge to who is asked.
			if owed+before != step.asked || charged != step.charged {
				t.Errorf("step %d, to %v: asked for %v and charged %v; then charged %v, want %v and %v", i, step.mode, before, owed, charged, step.asked, step.charged)
			}
		}
	})
}

func TestRecentIsAtLeastTheWindowAndAtMostASpanMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r recent
		limit, burst := rapid.Float64Range(0.001, 1e6).Draw(t, "limit"), rapid.Float64Range(1, 1e6).Draw(t, "burst")
		r.window(limiter.Level{Limit: rate.Limit(limit), Burst: burst})
		window := time.Duration(min(burst/limit*1e9, float64(maxWindow)))
		type event struct {
			at limiter.Instant
			n  int
		}
		var events []event
		now := limiter.Instant(rapid.Int64Range(0, 1<<60).Draw(t, "begin"))
		for range rapid.IntRange(0, 50).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.Float64Range(0, 0.3).Draw(t, "gap") * float64(window)))
			n := rapid.IntRange(0, 1000).Draw(t, "n")
			r.add(now, n)
			events = append(events, event{now, n})
		}
		var least, most int64
		for _, e := range events {
			age := float64(now.Sub(e.at))
			if age <= float64(window) {
				least += int64(e.n)
			}
			if age <= float64(window)*spans/(spans-1)+spans {
				most += int64(e.n)
			}
		}
		if got := r.sum(now); got < least || got > most {
			t.Errorf("%d of the last %v, which is %d to %d", got, window, least, most)
		}
	})
}

func TestWindowsOfAnyBucket(t *testing.T) {
	for _, level := range []limiter.Level{
		{}, {Burst: 1}, {Limit: 1}, {Limit: rate.Inf, Burst: 1}, {Limit: rate.Inf, Burst: math.Inf(1)}, {Limit: 1e-300, Burst: 1e12}, {Limit: rate.Limit(math.NaN())},
	} {
		var r recent
		r.window(level)
		r.add(1, 5)
		if got := r.sum(1); got != 5 || r.span <= 0 || r.span > maxWindow {
			t.Errorf("%+v: %d in spans of %v", level, got, r.span)
		}
	}
	var r recent
	r.window(limiter.Level{Limit: 1, Burst: 70})
	r.add(1, 5)
	r.window(limiter.Level{Limit: 1, Burst: 7})
	if r.span != time.Second || r.sum(1) != 0 {
		t.Errorf("spans of %v, %d in them", r.span, r.sum(1))
	}
}
