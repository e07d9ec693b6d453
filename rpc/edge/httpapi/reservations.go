// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"crypto/rand"
	"sync"
	"time"
)

// reservations names what the engine holds for programs, in two generations:
// when the young one is full, or old enough, it becomes the old one, and what
// was in that is forgotten. Safe for concurrent use.
type reservations struct {
	most   int           // of a generation
	within time.Duration // for how long each is kept, if it is not full before

	mu         sync.Mutex     // protects following fields
	young, old map[string]any // by name, that of a Decision
	since      time.Time      // of young
}

// add remembers held, and returns its name, which no caller can guess.
func (r *reservations) add(now time.Time, held any) string {
	id := rand.Text()
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.young == nil || len(r.young) >= r.most || now.Sub(r.since) >= r.within {
		r.old, r.young, r.since = r.young, make(map[string]any), now
	}
	r.young[id] = held
	return id
}

// take returns what is called id, once; nil if it is not known.
func (r *reservations) take(id string) any {
	r.mu.Lock()
	defer r.mu.Unlock()

	held, ok := r.young[id]
	if !ok {
		held = r.old[id]
	}
	delete(r.young, id)
	delete(r.old, id)
	return held
}
