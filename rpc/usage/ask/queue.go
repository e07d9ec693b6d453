// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/breaker"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// queueID names a takeQueue: the owner that it asks, and how long a call may take.
type queueID struct {
	owner   string
	timeout time.Duration
}

// caller numbers the sender of batches to id. It is another number for each
// timeout, because the owner counts a caller's batches, and not 0.
func (id queueID) caller(t *Taker) uint64 { return t.number() + 2*uint64(id.timeout) }

// takeQueue is the takes from one owner that wait equally long for it.
//
//	first ──▶ a call of its own ──────────▶ owner
//	others ─▶ queue ─▶ its head makes the next call for all of them:
//	                   when a call is back, or after Window
//
// A caller makes a call on its own goroutine, and then wakes the callers of the
// other takes in it, and the head of the queue.
type takeQueue struct {
	queueID
	breaker *breaker.Breaker
	silent  error // ErrSilent, of this owner

	mu        sync.Mutex // protects following fields
	queue     []*waiting
	next      uint64        // number of the next batch
	underWay  []uint64      // batches
	withdrawn []uint64      // batches without an answer, which the owner was not asked to undo yet
	undoing   bool          // a call of its own will withdraw them, if no other does before
	failedAt  time.Duration // end of the last call without an answer
	answered  time.Duration
	forgotten bool // the Taker has deleted the queue, and makes another for later takes
}

// errForgotten means that the take has to go to the owner's next queue.
var errForgotten = errors.New("rpc: the queue is forgotten")

// waiting is one take that waits.
type waiting struct {
	since time.Duration // when it came
	take  usage.Take
	took  usage.Took
	err   error
	batch *takeBatch // to make the call of, when woken for that

	// waker says that the answer is there, or batch. nil: the caller of TakeAll makes
	// the call.
	waker Waker
}

// takeBatch is one call.
type takeBatch struct {
	began   time.Duration
	call    breaker.Call
	waiters []*waiting
	takes   usage.Takes
	taken   usage.Taken
}

// takeBatches keeps the memory of calls.
var takeBatches sync.Pool

func newTakeQueue(id queueID) *takeQueue {
	return &takeQueue{queueID: id, breaker: breaker.New(silence), silent: fmt.Errorf("%w: %s", ErrSilent, id.owner), next: 1, answered: math.MinInt64}
}

func (t *Taker) newWaiting(take usage.Take) *waiting {
	w, ok := t.waiting.Get().(*waiting)
	if !ok {
		w = &waiting{waker: t.waker()}
	}
	w.take, w.took, w.err, w.batch = take, usage.Took{}, nil, nil
	return w
}

// take waits for its turn and for the answer.
func (q *takeQueue) take(t *Taker, take usage.Take) (usage.Took, error) {
	w := t.newWaiting(take)
	defer t.waiting.Put(w)

	batch, head, err := q.enter(t, w)
	switch {
	case err != nil:
		return usage.Took{}, err
	case batch != nil:
		q.call(context.Background(), t, batch, w)
		return w.took, w.err
	case head:
		if w.waker.WaitFor(Window) {
			break
		}
		if batch = q.cut(t, w); batch != nil {
			q.call(context.Background(), t, batch, w)
			return w.took, w.err
		}
		fallthrough
	default:
		w.waker.Wait()
	}
	if w.batch != nil {
		q.call(context.Background(), t, w.batch, w)
	}
	return w.took, w.err
}

// enter puts w into the queue, whose head it may be; or else it is to make a
// call at once.
func (q *takeQueue) enter(t *Taker, w *waiting) (batch *takeBatch, head bool, err error) {
	now := t.now()
	q.mu.Lock()
	defer q.mu.Unlock()

	switch {
	case q.forgotten:
		return nil, false, errForgotten
	case !q.breaker.Ready(now):
		return nil, false, q.silent
	case len(q.queue) >= MaxQueue:
		return nil, false, ErrBusy
	}
	w.since = now
	q.queue = append(q.queue, w)
	if len(q.underWay) == 0 {
		return q.cutLocked(t, now), false, nil
	}
	return nil, len(q.queue) == 1, nil
}

// cut returns the call that w is to make as the head of the queue, which has waited
// for others to share it; nil if another caller wakes w with a call or its answer.
func (q *takeQueue) cut(t *Taker, w *waiting) *takeBatch {
	q.mu.Lock()
	defer q.mu.Unlock()

	if len(q.queue) == 0 || q.queue[0] != w || len(q.underWay) >= callsPerOwner {
		return nil
	}
	return q.cutLocked(t, t.now())
}

// more returns a call of the takes that wait; nil if there are none, or too many calls
// under way.
func (q *takeQueue) more(t *Taker) *takeBatch {
	q.mu.Lock()
	defer q.mu.Unlock()

	if len(q.queue) == 0 || len(q.underWay) >= callsPerOwner {
		return nil
	}
	return q.cutLocked(t, t.now())
}

// start has the first caller of b, which may be nil, make the call.
func (b *takeBatch) start() {
	if b == nil {
		return
	}
	head := b.waiters[0]
	head.batch = b
	head.waker.Wake()
}

// cutLocked makes a call of the front of the queue. An empty queue makes one that
// takes nothing and only withdraws.
func (q *takeQueue) cutLocked(t *Taker, now time.Duration) *takeBatch {
	n := min(len(q.queue), takesPerCall)
	b := q.batchLocked(t, now, q.queue[:n])
	q.queue = slices.Delete(q.queue, 0, n)
	return b
}

// batchLocked makes a call of waiters.
func (q *takeQueue) batchLocked(t *Taker, now time.Duration, waiters []*waiting) *takeBatch {
	b, ok := takeBatches.Get().(*takeBatch)
	if !ok {
		b = new(takeBatch)
	}
	b.began, b.waiters = now, append(b.waiters[:0], waiters...)
	// Takes wait only while the breaker is ready. Once it is not, a call for
	// those that came before is made, but its outcome is ignored.
	b.call, _ = q.breaker.Begin(now)
	// The owner may know batches of an earlier queue, which is deleted.
	q.next = max(q.next, t.queues.used.Load())
	b.takes.Caller, b.takes.Batch, b.takes.Settled = q.caller(t), q.next, q.next
	for _, number := range q.underWay {
		b.takes.Settled = min(b.takes.Settled, number)
	}
	for _, number := range q.withdrawn {
		b.takes.Settled = min(b.takes.Settled, number)
	}
	b.takes.Withdrawn = append(b.takes.Withdrawn[:0], q.withdrawn...)
	q.underWay = append(q.underWay, q.next)
	q.next++
	return b
}

// call makes the call b, for self and others, and wakes them. A caller may give
// up, but the others' call goes on.
func (q *takeQueue) call(ctx context.Context, t *Taker, b *takeBatch, self *waiting) {
	if len(b.waiters) == takesPerCall {
		q.more(t).start() // the takes that it has no room for do not wait for its answer
	}
	if len(b.waiters) > 1 {
		// Takes of one key side by side cost a few bytes each. Their order stays.
		slices.SortStableFunc(b.waiters, func(x, y *waiting) int { return accountOf(&x.take).compare(accountOf(&y.take)) })
	}
	b.takes.Rows = b.takes.Rows[:0]
	for i, w := range b.waiters {
		b.takes.Rows = append(b.takes.Rows, w.take)
		if i == 0 || accountOf(&w.take) != accountOf(&b.waiters[i-1].take) {
			t.answers.fill(b.began, &b.takes.Rows[i])
		}
	}
	err := t.ask(ctx, "take tokens of", q.queueID, b.takes.Payload(), len(b.takes.Rows), &b.taken)
	dropped, next := q.done(t, b, err)
	next.start()
	now := t.now()
	for i := range b.takes.Rows {
		if of := accountOf(&b.takes.Rows[i]); err == nil && (i == len(b.takes.Rows)-1 || of != accountOf(&b.takes.Rows[i+1])) {
			t.answers.record(now, of, b.taken.Rows[i], b.taken.By)
		}
	}
	for i, w := range b.waiters {
		if w.err = err; err == nil {
			w.took = b.taken.Rows[i]
		}
		if w != self && w.waker != nil {
			w.waker.Wake()
		}
	}
	for _, w := range dropped {
		if w.err = err; err == nil {
			w.err = ErrBusy
		}
		w.waker.Wake()
	}
	clear(b.waiters)
	clear(b.takes.Rows)
	takeBatches.Put(b)
}

// done notes how b ended. It returns the takes that get no call, and the next call.
func (q *takeQueue) done(t *Taker, b *takeBatch, err error) (dropped []*waiting, next *takeBatch) {
	now := t.now()
	q.mu.Lock()
	defer q.mu.Unlock()

	q.underWay = slices.DeleteFunc(q.underWay, func(number uint64) bool { return number == b.takes.Batch })
	if err == nil {
		q.breaker.End(b.call, now, breaker.Success)
		q.answered = now
		q.withdrawn = slices.DeleteFunc(q.withdrawn, func(number uint64) bool { return slices.Contains(b.takes.Withdrawn, number) })
	} else {
		q.breaker.End(b.call, now, breaker.Failure)
		if len(b.waiters) > 0 {
			q.failedAt = now
			if len(q.withdrawn) == rpc.MaxWithdrawn {
				q.withdrawn = slices.Delete(q.withdrawn, 0, 1)
			}
			q.withdrawn = append(q.withdrawn, b.takes.Batch)
		}
		if q.answered < b.began { // the others would wait in vain too
			dropped, q.queue = q.queue, nil
		}
	}
	// An answer would be too late for takes that have waited for a whole timeout.
	late := 0
	for late < len(q.queue) && now-q.queue[late].since > q.timeout {
		late++
	}
	dropped = append(dropped, q.queue[:late]...)
	q.queue = slices.Delete(q.queue, 0, late)
	if len(q.queue) > 0 && len(q.underWay) < callsPerOwner {
		next = q.cutLocked(t, now)
	}
	if len(q.withdrawn) > 0 && !q.undoing {
		q.undoing = true
		t.undoLater(q, undoAfter)
	}
	return dropped, next
}

// forget ends q if it is not in use, and returns the number after those of its
// batches. A queue is in use while it has batches to withdraw whose messages may
// still arrive.
func (q *takeQueue) forget(t *Taker) (next uint64, ok bool) {
	now := t.now()
	q.mu.Lock()
	defer q.mu.Unlock()

	settled := len(q.withdrawn) == 0 || now-q.failedAt > underWayFor
	q.forgotten = len(q.queue) == 0 && len(q.underWay) == 0 && settled
	return q.next, q.forgotten
}
