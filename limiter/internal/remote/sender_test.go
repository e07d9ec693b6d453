// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

type sink struct{ n atomic.Int64 }

func (s *sink) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	s.n.Add(int64(op.N))
	return stage.Outcome{OK: true}, nil
}

// The sender also sends a charge that a decision adds just when the sender finds nothing more.
func TestTheLastChargeIsSent(t *testing.T) {
	lost := 0
	var background sync.WaitGroup
	h := newHub()
	h.config.Background = background.Go
	for range 20000 {
		r := newStage(t, new(store), h)
		r.remote = new(sink)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { r.Take(context.Background(), stage.Request{N: 1, Kind: stage.Charge}) })
		}
		wg.Wait()
		background.Wait()
		if !r.outbox.Empty() {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of 20000 times a charge is left, and nobody sends it", lost)
	}
}

func TestAResentOperationHasTheRuleInForce(t *testing.T) {
	s, h := new(store), newHub()
	r := newStage(t, s, h)
	s.err = errAway
	r.Take(t.Context(), stage.Request{N: 1, Kind: stage.Charge})
	rule := *r.Terms().Rule
	rule.Limit = 1
	r.SetTerms(0, &share.Terms{Rule: &rule, Algorithm: "exact"})
	var got *stage.Operation
	if got = r.outbox.Next("k", r.Terms().Rule); got == nil || got.Rule != &rule {
		t.Errorf("the operation that is sent again is under the old rule: %+v", got)
	}
}

// A stage charges and gives back events that an open fallback let through like any others, and
// the fallback's bucket gets nothing back that it did not give.
func TestAnOpenFallbackIsChargedAndGivenBack(t *testing.T) {
	for _, auto := range []bool{false, true} {
		s, h := &store{err: errAway}, newHub()
		r := newStage(t, s, h)
		rule := *r.Terms().Rule
		rule.Fallback = dynamicconfig.FallbackOpen
		r.SetTerms(0, &share.Terms{Rule: &rule, Algorithm: "exact"})
		r.Steer(0, 2)
		r.set(owned, auto)
		r.Take(t.Context(), request(100)) // more than one event may cost, and no demand
		_, receipt := r.Take(t.Context(), request(8))
		r.Settle(0, receipt, 3)
		_, late := r.Take(t.Context(), request(9))
		rule.Fallback = dynamicconfig.FallbackEven
		r.Steer(0, 2)
		before := r.Bucket().Tokens(0)
		s.err = nil
		r.Settle(0, late, 0)
		r.Flush(0)
		if after := r.Bucket().Tokens(0); after > before || s.settled != 3 {
			t.Errorf("the fallback had %v tokens, and has %v; the remote was charged with %v, want 3", before, after, s.settled)
		}
		c := r.Count(0)
		if got := [2]int64{c.Allowed + r.Admitted(), c.Rejected - r.Admitted()}; got != [2]int64{3, 0} {
			t.Errorf("counted %v", got)
		}
	}
}

// onAnother runs f on another goroutine, which f may end, and waits for it.
func onAnother(f func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f()
	}()
	<-ended
}

// ending is a Remote whose code ends its goroutine, such as one of a test that fails the test.
type ending struct{ calls atomic.Int64 }

func (e *ending) Do(context.Context, stage.Operation) (stage.Outcome, error) {
	if e.calls.Add(1) > 100 {
		panic("it is asked again at once, for ever")
	}
	runtime.Goexit()
	return stage.Outcome{}, nil
}

// A Remote that ends the goroutine of a charge has not answered: the host sends the charge again later, and not at once.
func TestAChargeWhoseRemoteEndsItsGoroutineIsSentAgainLater(t *testing.T) {
	h, e, s := newHub(), new(ending), new(store)
	h.config.Background = onAnother
	r := newStage(t, s, h)
	r.remote = e
	now := stage.Now()
	r.Take(t.Context(), stage.Request{Now: now, N: 3, Kind: stage.Charge})
	h.FlushLater(now)
	if n := e.calls.Load(); n != 1 || !r.HasUnsent() {
		t.Errorf("it was sent %d times, and is still unsent: %t", n, r.HasUnsent())
	}
	r.remote = s
	h.FlushLater(now.Add(retryEvery))
	if s.settled != 3 || r.HasUnsent() {
		t.Errorf("the remote was charged with %v tokens, want 3", s.settled)
	}
}

// together takes in charges of many keys at a time, as far as it is sane.
type together struct {
	*store
	calls, first int // first: so many of the next call get an answer
	panicking    bool
	ending       bool // ends the goroutine
}

func (c *together) DoAll(ctx context.Context, ops []stage.Operation, done func(i int, o stage.Outcome, err error)) {
	c.calls++
	for i, op := range ops[:min(c.first, len(ops))] {
		o, err := c.Do(ctx, op)
		done(i, o, err)
	}
	if c.panicking {
		panic("a defect")
	}
	if c.ending {
		runtime.Goexit()
	}
}

// A host sends the charges of many keys together. What its remote does not say a word
// about, panics at, or ends its goroutine at, the host sends again, under the same ID.
func TestWhatIsOwedForManyKeysIsSentTogetherUntilItIsAnswered(t *testing.T) {
	c := &together{store: new(store)}
	h := newHub()
	h.config.Charges, h.config.Background = map[string]stage.Charges{"exact": c}, onAnother
	for range 10 {
		newStage(t, c.store, h).enqueue(3)
	}
	now := stage.Now()
	for _, row := range []struct {
		first     int
		panicking bool
		ending    bool
		want      float64
	}{{4, false, false, 12}, {2, true, false, 18}, {1, false, true, 21}, {10, false, false, 30}, {10, false, false, 30}} {
		c.first, c.panicking, c.ending = row.first, row.panicking, row.ending
		h.FlushLater(now)
		h.FlushLater(now) // too soon to try again
		if c.settled != row.want {
			t.Errorf("after %d answers, the remote was charged with %v tokens, want %v", row.first, c.settled, row.want)
		}
		now = now.Add(retryEvery)
	}
	if c.calls != 4 || c.sent != 10 {
		t.Errorf("10 charges were sent in %d calls, and answered %d times", c.calls, c.sent)
	}
}

// What is still to be sent to a bucket that was measured is not sent to the one that answers.
func TestWhatAMeasuredBucketIsOwedIsNotTheOthers(t *testing.T) {
	h := newHub()
	measured := newStage(t, &store{err: errAway}, h)
	terms := *measured.Terms()
	terms.Measured = true
	measured = New(share.NewRate(0, "k", &terms, 2, terms.Rule.Burst, 0), measured.Link)
	measured.ChargeLater(0, 3)
	measured.Leave()
	if again := New(share.NewRate(0, "k", &terms, 2, terms.Rule.Burst, 0), measured.Link); !again.HasUnsent() {
		t.Error("the next Stage of the measured bucket has not taken over what is to be sent")
	} else {
		again.Leave()
	}
	if answers := newStage(t, new(store), h); answers.HasUnsent() {
		t.Error("the bucket that answers is charged")
	}
}
