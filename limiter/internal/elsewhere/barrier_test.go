// SPDX-License-Identifier: Apache-2.0

package elsewhere_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/stage"
)

// far is later than any attempt.
const far = stage.Instant(1 << 62)

// Asks come after what was put first, whichever operations and answers are lost and whatever is added meanwhile. They
// wait for nothing once all was answered.
func TestAsksComeAfterWhatWasPutFirst(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var o elsewhere.Outbox
		added, first, sent, answered := 0, 0, 0, 0 // numbers of calls of Add: the last that was put first, sent, and answered
		var under bool                             // an operation is
		send := func(answers bool) {
			if !o.Begin() {
				rt.Fatal("somebody else sends")
			}
			var err error
			if op := o.Next("k", nil); op != nil {
				if !under {
					under, sent = true, added
				}
				if err = errors.New("lost"); answers {
					o.Done()
					under, answered, err = false, sent, nil
				}
			} else {
				answered = added
			}
			o.End(err)
		}
		for range rapid.IntRange(1, 50).Draw(rt, "steps") {
			switch rapid.IntRange(0, 2).Draw(rt, "what") {
			case 0:
				o.Add(rapid.Int64Range(-3, 10).Draw(rt, "n"))
				added++
			case 1:
				o.SetBarrier(far)
				first = added
			default:
				send(rapid.Bool().Draw(rt, "answers"))
			}
			if !o.HasBarrier() && answered < first {
				rt.Fatalf("asks do not wait for what was put first as the %d., and %d were answered", first, answered)
			}
		}
		send(true)
		send(true)
		if o.HasBarrier() {
			rt.Fatal("all was answered, and asks wait")
		}
	})
}

// An attempt that fails when asks have waited for long is the last that they wait for.
func TestAsksWaitNoLongerThanUntil(t *testing.T) {
	for _, row := range []struct {
		until stage.Instant
		waits bool
	}{{stage.Now().Add(time.Hour), true}, {stage.Now(), false}} {
		var o elsewhere.Outbox
		o.Add(1)
		o.SetBarrier(row.until)
		failure := errors.New("lost")
		err := o.AwaitBarrier(t.Context(), func() {
			o.Next("k", nil)
			o.End(failure)
		})
		if !errors.Is(err, failure) {
			t.Errorf("the attempt ended with %v", err)
		}
		if o.HasBarrier() != row.waits {
			t.Errorf("asks wait: %t, want %t", !row.waits, row.waits)
		}
	}
}

// Every ask hears of the end of the attempt that it waits for, or can begin one itself: whoever sends at the same time,
// and whatever is put first meanwhile.
func TestNoAskWaitsForAnAttemptThatNobodyMakes(t *testing.T) {
	var o elsewhere.Outbox
	var asks, payers sync.WaitGroup
	var ends atomic.Bool
	send := func(n int) {
		var err error
		if o.Next("k", nil) != nil {
			if err = errors.New("lost"); n%3 > 0 {
				o.Done()
				err = nil
			}
		}
		o.End(err)
	}
	for range 2 {
		payers.Go(func() {
			for n := 0; !ends.Load(); n++ {
				o.Add(1)
				o.SetBarrier(far)
				if o.Begin() {
					send(n)
				}
			}
		})
	}
	for range 4 {
		asks.Go(func() {
			for n := range 5000 {
				_ = o.AwaitBarrier(context.Background(), func() { send(n) })
			}
		})
	}
	asks.Wait()
	ends.Store(true)
	payers.Wait()
}
