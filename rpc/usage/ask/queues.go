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
	used atomic.Uint64 // numbers of batches below it, by queues that are forgotten

	mu   sync.RWMutex // protects byID, and changes of used; the locks of queues come after it
	byID map[queueID]*takeQueue
}

// queue finds or makes the queue called id, of t.
func (qs *queues) queue(id queueID, t *Taker) *takeQueue {
	qs.mu.RLock()
	q := qs.byID[id]
	qs.mu.RUnlock()
	if q != nil {
		return q
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()

	if q = qs.byID[id]; q != nil {
		return q
	}
	if len(qs.byID) >= maxQueues {
		qs.forgetLocked(t)
	}
	if qs.byID == nil {
		qs.byID = make(map[queueID]*takeQueue)
	}
	q = newTakeQueue(id)
	qs.byID[id] = q
	return q
}

// forgetLocked deletes the queues that are not in use. The batches of a later queue of
// that name have higher numbers.
func (qs *queues) forgetLocked(t *Taker) {
	for id, q := range qs.byID {
		if next, ok := q.forget(t); ok {
			qs.used.Store(max(qs.used.Load(), next))
			delete(qs.byID, id)
		}
	}
}
