// SPDX-License-Identifier: Apache-2.0

package elsewhere_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/stage"
)

// What is added arrives once, whichever operations and answers are lost and whatever takes over what is owed,
// at a bucket that knows the IDs that it is not told to forget.
func TestWhatIsOwedArrivesOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := new(elsewhere.Outbox)
		added, arrived := int64(0), int64(0)
		known := make(map[uint64]bool)
		send := func(reaches, answers bool) {
			op := o.Next("k", nil)
			if op == nil {
				return
			}
			if reaches {
				delete(known, op.Forget)
				if !known[op.ID] {
					known[op.ID] = true
					if n := int64(op.N); op.Kind == stage.ReturnTokens {
						arrived -= n
					} else {
						arrived += n
					}
				}
				if answers {
					o.Done()
				}
			}
		}
		for range rapid.IntRange(1, 50).Draw(rt, "steps") {
			if rapid.IntRange(0, 9).Draw(rt, "another takes over") == 0 {
				next := new(elsewhere.Outbox)
				if next.TakeOver(o); !o.Empty() {
					rt.Fatal("something is left")
				}
				o = next
				continue
			}
			if rapid.Bool().Draw(rt, "add") {
				n := rapid.Int64Range(-5, 10).Draw(rt, "n")
				added += n
				o.Add(n)
			} else {
				send(rapid.Bool().Draw(rt, "reaches"), rapid.Bool().Draw(rt, "answers"))
			}
		}
		send(true, true)
		send(true, true) // what was added while the other had no answer
		if arrived != added || !o.Empty() {
			rt.Fatalf("%d of %d arrived, nothing is owed: %v", arrived, added, o.Empty())
		}
	})
}

// While a sender moves what is owed into an operation, Empty stays false: else a stage that has
// left its key would be forgotten.
func TestWhatIsAboutToBeSentIsOwed(t *testing.T) {
	var o elsewhere.Outbox
	var owes atomic.Int64 // odd while something is owed
	var sender sync.WaitGroup
	defer sender.Wait()
	ends := make(chan struct{})
	sender.Go(func() {
		defer close(ends)
		for range 200_000 {
			o.Add(1)
			owes.Add(1)
			o.Next("k", nil)
			owes.Add(1)
			o.Done()
		}
	})
	for {
		select {
		case <-ends:
			return
		default:
		}
		if at := owes.Load(); at%2 == 1 && o.Empty() && owes.Load() == at {
			t.Fatal("what is about to be sent is not owed")
		}
	}
}
