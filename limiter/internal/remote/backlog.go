// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"sync"
	"time"

	"github.com/headgate/headgate/limiter/internal/fit"
	"github.com/headgate/headgate/limiter/stage"
)

const (
	// sendsFor is how long a Stage that has left its key goes on sending its charges. After
	// that time, the bucket of a usual limit would be full again.
	sendsFor = 10 * time.Minute

	// maxBacklog bounds the Stages that have left their keys and still send.
	maxBacklog = 1 << 16
)

// backlog lists the Stages with unsent charges. The zero backlog is empty. It
// is safe for concurrent use and calls nothing while its lock is held.
type backlog struct {
	mu      sync.Mutex // protects following fields
	entries []entry    // in the order in which they were added
	newest  map[account]*Stage
}

// account is a remote bucket.
type account struct{ under, key string }

// entry is a Stage of a backlog.
type entry struct {
	*Stage
	until stage.Instant // the end of sendsFor; 0 while a key decides by the Stage
}

// add adds s, which is not listed yet.
func (b *backlog) add(s *Stage) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.entries = append(b.entries, entry{Stage: s})
	if b.newest == nil {
		b.newest = make(map[account]*Stage)
	}
	b.newest[account{s.under, s.Key()}] = s
}

// before is the Stage that has left the key of s and has unsent charges for the same bucket; nil if
// there is none.
func (b *backlog) before(s *Stage) *Stage {
	b.mu.Lock()
	defer b.mu.Unlock()

	if e := b.newest[account{s.under, s.Key()}]; e != nil && e.gone.Load() {
		return e
	}
	return nil
}

// stages are those that are listed.
func (b *backlog) stages() []*Stage {
	b.mu.Lock()
	defer b.mu.Unlock()

	all := make([]*Stage, len(b.entries))
	for i, e := range b.entries {
		all[i] = e.Stage
	}
	return all
}

// tidy removes Stages that have sent everything, and those that have left their keys if
// that was too long ago, or if there are too many.
func (b *backlog) tidy(now stage.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()

	left := 0
	kept := b.entries[:0]
	for _, e := range b.entries {
		if e.stays(now, &left) {
			kept = append(kept, e)
		} else if of := (account{e.under, e.Key()}); b.newest[of] == e.Stage {
			delete(b.newest, of)
		}
	}
	clear(b.entries[len(kept):])
	b.entries = fit.Slice(kept)
}

// stays reports whether e stays listed. left counts those that have left their keys.
func (e *entry) stays(now stage.Instant, left *int) bool {
	switch {
	case !e.HasUnsent():
		// A charge that is added from here on lists it again.
		e.listed.Store(false)
		return e.HasUnsent() && e.listed.CompareAndSwap(false, true)
	case !e.gone.Load():
		return true
	case e.until == 0:
		e.until = now.Add(sendsFor)
	}
	if *left++; *left > maxBacklog || now >= e.until {
		e.listed.Store(false)
		return false
	}
	return true
}
