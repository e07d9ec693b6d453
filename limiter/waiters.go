// SPDX-License-Identifier: Apache-2.0

package limiter

import "container/heap"

// waiter waits for n slots. All but done is protected by the slots' mu until
// done is closed, and its owner's then.
type waiter struct {
	n        int64
	priority int64  // higher is served first
	arrived  uint64 // of equal priority, lower is served first

	in *waiters // nil when it was served, or left
	at int      // its place in there

	done chan struct{} // closed when hold or err is there
	hold Hold
	err  error
}

// end tells w what became of it.
func (w *waiter) end(h Hold, err error) {
	w.hold, w.err = h, err
	close(w.done)
}

// waiters is a heap of waiters; each is in at most one.
type waiters struct {
	before func(a, b *waiter) bool
	all    []*waiter
}

// byTurn puts first who is to be served first.
func byTurn(a, b *waiter) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	return a.arrived < b.arrived
}

// byNeed puts first who needs the fewest slots.
func byNeed(a, b *waiter) bool { return a.n < b.n }

func (q *waiters) first() *waiter   { return q.all[0] }
func (q *waiters) push(w *waiter)   { heap.Push(q, w) }
func (q *waiters) remove(w *waiter) { heap.Remove(q, w.at) }

// Len implements heap.Interface.
func (q *waiters) Len() int { return len(q.all) }

// Less implements heap.Interface.
func (q *waiters) Less(i, j int) bool { return q.before(q.all[i], q.all[j]) }

// Swap implements heap.Interface.
func (q *waiters) Swap(i, j int) {
	q.all[i], q.all[j] = q.all[j], q.all[i]
	q.all[i].at, q.all[j].at = i, j
}

// Push implements heap.Interface.
func (q *waiters) Push(x any) {
	if w, ok := x.(*waiter); ok {
		w.in, w.at = q, len(q.all)
		q.all = append(q.all, w)
	}
}

// Pop implements heap.Interface.
func (q *waiters) Pop() any {
	last := len(q.all) - 1
	w := q.all[last]
	q.all[last] = nil
	q.all = q.all[:last]
	w.in = nil
	return w
}
