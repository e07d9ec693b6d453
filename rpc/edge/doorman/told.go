// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"hash/maphash"
	"sync"
	"time"
)

// maxTold is how many leases are remembered. Each takes some 50 bytes.
const maxTold = 1 << 16

// told remembers what servers downstream were leased. Doorman's own servers do not say what
// they have when they ask, so an owner that is new to a resource would give them nothing
// while it learns. Use newTold. Safe for concurrent use.
type told struct {
	seed maphash.Seed

	mu     sync.Mutex // protects following fields
	leases map[uint64]toldLease
}

type toldLease struct {
	amount float64
	until  time.Time
}

func newTold() *told {
	return &told{seed: maphash.MakeSeed(), leases: make(map[uint64]toldLease)}
}

// id stands for a resource of host. Names are what others choose, and long, so they are not kept.
func (t *told) id(host, resource string) uint64 {
	return maphash.Comparable(t.seed, [2]string{host, resource})
}

// has is what the lease with that id is of at now; 0 if there is none any more.
func (t *told) has(id uint64, now time.Time) float64 {
	t.mu.Lock()
	defer t.mu.Unlock()

	if l := t.leases[id]; now.Before(l.until) {
		return l.amount
	}
	return 0
}

// note remembers a lease. If there are too many, any other is forgotten.
func (t *told) note(id uint64, amount float64, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()

	if _, known := t.leases[id]; !known && len(t.leases) >= maxTold {
		for other := range t.leases {
			delete(t.leases, other)
			break
		}
	}
	t.leases[id] = toldLease{amount, until}
}
