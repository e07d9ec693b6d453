// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"math"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter/stage"
)

func TestRecentIsAtLeastTheWindowAndAtMostASpanMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, burst := rapid.Float64Range(0.001, 1e6).Draw(t, "limit"), rapid.Float64Range(1, 1e6).Draw(t, "burst")
		r := newRecent(spanFor(stage.Level{Limit: rate.Limit(limit), Burst: burst}))
		window := time.Duration(min(burst/limit*1e9, float64(maxWindow)))
		type event struct {
			at stage.Instant
			n  int64
		}
		var events []event
		now := stage.Instant(rapid.Int64Range(-1<<60, 1<<60).Draw(t, "begin"))
		for range rapid.IntRange(0, 50).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.Float64Range(0, 0.3).Draw(t, "gap") * float64(window)))
			n := rapid.Int64Range(0, 1000).Draw(t, "n")
			r.add(now, n)
			events = append(events, event{now, n})
		}
		var least, most int64
		for _, e := range events {
			age := float64(now.Sub(e.at))
			if age <= float64(window) {
				least += e.n
			}
			if age <= float64(window)*(spans+1)/(spans-1)+spans { // the span around 0 is twice as long
				most += e.n
			}
		}
		if got := r.sum(now); got < least || got > most {
			t.Errorf("%d of the last %v, which is %d to %d", got, window, least, most)
		}
	})
}

func TestWindowsOfAnyBucket(t *testing.T) {
	for _, level := range []stage.Level{
		{}, {Burst: 1}, {Limit: 1}, {Limit: rate.Inf, Burst: 1}, {Limit: rate.Inf, Burst: math.Inf(1)}, {Limit: 1e-300, Burst: 1e12}, {Limit: rate.Limit(math.NaN())},
	} {
		r := newRecent(spanFor(level))
		r.add(1, 5)
		if got := r.sum(1); got != 5 || r.span <= 0 || r.span > int64(maxWindow) {
			t.Errorf("%+v: %d in spans of %v", level, got, r.span)
		}
	}
}

// Each stage has a window of its own, which stays while its bucket takes as long to fill.
func TestTheWindowFollowsTheRemoteStage(t *testing.T) {
	o, n := newBucket(t, 1, 7), newBucket(t, 1, 14)
	p := NewPair(0, prompt{o}, prompt{n}, old, nil)
	allow(p, 0, 5)
	p.SetMode(0, old)
	if r := p.missed[1].Load(); r.span != 2*int64(second) || r.sum(0) != 5 {
		t.Errorf("spans of %v, %d in them", r.span, r.sum(0))
	}
	n.limit = 2
	p.SetMode(0, old)
	if r := p.missed[1].Load(); r.span != int64(second) || r.sum(0) != 5 {
		t.Errorf("spans of %v, %d in them", r.span, r.sum(0))
	}
	if r := p.missed[0].Load(); r.span != int64(second) || r.sum(0) != 0 {
		t.Errorf("the stage that was asked missed %d in spans of %v", r.sum(0), r.span)
	}
}

// Each span begins while many add to it, and no event is lost.
func TestManyAddToANewSpan(t *testing.T) {
	const callers, each = 4, 100
	r := newRecent(int64(second))
	for span := range stage.Instant(50) {
		before := r.sum(span * second)
		var wait sync.WaitGroup
		for range callers {
			wait.Go(func() {
				for range each {
					r.add(span*second, 1)
				}
			})
		}
		wait.Wait()
		if got := r.sum(span*second) - before; got != callers*each {
			t.Fatalf("span %d: %d of %d", span, got, callers*each)
		}
	}
}

// A caller that states a time to come hides no tokens of others from the sum.
func TestATimeToComeHidesNothing(t *testing.T) {
	for _, ahead := range []time.Duration{time.Second, time.Hour, 100 * 24 * time.Hour} {
		r := newRecent(int64(time.Second))
		now := stage.Instant(1000 * time.Second)
		for i := range spans {
			r.add(now.Add(ahead+time.Duration(i)*time.Second), 1)
		}
		for range spans {
			r.add(now, 10)
			now += stage.Instant(time.Second)
		}
		if got := r.sum(now); got < 10*(spans-1) {
			t.Errorf("%v ahead: %d", ahead, got)
		}
	}
}
