// SPDX-License-Identifier: Apache-2.0

package ask

import (
	"sync"
	"sync/atomic"
)

// maxQueues is how many queues there may be before the empty ones are deleted.
const maxQueues = 1024

// queues are the queues of a Taker. The zero value is ready to use. It is safe for
// concurrent use.
type queues struct {
	byID  sync.Map // queueID to *takeQueue
	count atomic.Int64
	used  atomic.Uint64 // numbers of batches below it, by queues that are forgotten
}

// queue finds or makes the queue called id, of t.
func (qs *queues) queue(id queueID, t *Taker) *takeQueue {
	if q, ok := qs.byID.Load(id); ok {
		if q, ok := q.(*takeQueue); ok {
			return q
		}
	}
	if qs.count.Add(1) > maxQueues {
		qs.byID.Range(func(_, q any) bool {
			if q, ok := q.(*takeQueue); ok {
				qs.forget(q, t)
			}
			return true
		})
	}
	q, had := qs.byID.LoadOrStore(id, newTakeQueue(id))
	if had {
		qs.count.Add(-1)
	}
	made, _ := q.(*takeQueue) // nothing else is stored
	return made
}

// forget deletes q, if it is not in use. The batches of a later queue of that
// name have higher numbers.
func (qs *queues) forget(q *takeQueue, t *Taker) {
	next, ok := q.forget(t)
	if !ok {
		return
	}
	for used := qs.used.Load(); used < next && !qs.used.CompareAndSwap(used, next); used = qs.used.Load() {
	}
	if qs.byID.CompareAndDelete(q.queueID, q) {
		qs.count.Add(-1)
	}
}
