// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"container/heap"

	"github.com/headgate/headgate/limiter/stage"
)

// waiter waits for n slots. The Semaphore's mu protects all but done until
// done is closed. Then the waiting goroutine owns it.
type waiter struct {
	n        int64
	priority int64  // higher is served first
	arrival  uint64 // of equal priority, lower is served first

	in *queue // nil once it was served, sent away or has left
	at int    // its index there

	done chan struct{} // closed when hold or err is set
	hold stage.Hold
	err  error
}

// finish ends the wait of w with a result.
func (w *waiter) finish(h stage.Hold, err error) {
	w.hold, w.err = h, err
	close(w.done)
}

// servedBefore is the order in which waiters are served.
func servedBefore(a, b *waiter) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	return a.arrival < b.arrival
}

// smallerThan puts first the waiter that needs the fewest slots.
func smallerThan(a, b *waiter) bool { return a.n < b.n }

// queue is a heap of waiters. A waiter is in at most one queue.
type queue struct {
	before  func(a, b *waiter) bool
	waiters []*waiter
	slots   int64 // that they need
}

func (q *queue) first() *waiter   { return q.waiters[0] }
func (q *queue) push(w *waiter)   { heap.Push(q, w) }
func (q *queue) remove(w *waiter) { heap.Remove(q, w.at) }

// over is how many slots are waited for by those who need more than most.
func (q *queue) over(most int64) (n int64) {
	for _, w := range q.waiters {
		if w.n > most {
			n += w.n
		}
	}
	return n
}

// Len implements heap.Interface.
func (q *queue) Len() int { return len(q.waiters) }

// Less implements heap.Interface.
func (q *queue) Less(i, j int) bool { return q.before(q.waiters[i], q.waiters[j]) }

// Swap implements heap.Interface.
func (q *queue) Swap(i, j int) {
	q.waiters[i], q.waiters[j] = q.waiters[j], q.waiters[i]
	q.waiters[i].at, q.waiters[j].at = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	if w, ok := x.(*waiter); ok {
		w.in, w.at = q, len(q.waiters)
		q.waiters = append(q.waiters, w)
		q.slots += w.n
	}
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(q.waiters) - 1
	w := q.waiters[last]
	q.waiters[last] = nil
	q.waiters = q.waiters[:last]
	w.in = nil
	q.slots -= w.n
	return w
}
