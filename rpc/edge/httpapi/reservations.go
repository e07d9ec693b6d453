// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"crypto/rand"
	"sync"
	"time"
)

// reservations remembers how to settle what was reserved, in two generations:
// when the young one is full, or old enough, it becomes the old one, and what
// was in that is forgotten. Safe for concurrent use.
type reservations struct {
	most   int           // of a generation
	within time.Duration // for how long each is kept, if it is not full before

	mu         sync.Mutex // protects following fields
	young, old map[string]func(cost int64)
	since      time.Time // of young
}

// add remembers settle, and returns what it is called: nobody can guess that.
func (r *reservations) add(now time.Time, settle func(cost int64)) string {
	id := rand.Text()
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.young == nil || len(r.young) >= r.most || now.Sub(r.since) >= r.within {
		r.old, r.young, r.since = r.young, make(map[string]func(int64)), now
	}
	r.young[id] = settle
	return id
}

// take returns what settles id, once; nil if it is not known.
func (r *reservations) take(id string) func(cost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()

	settle, ok := r.young[id]
	if !ok {
		settle = r.old[id]
	}
	delete(r.young, id)
	delete(r.old, id)
	return settle
}
