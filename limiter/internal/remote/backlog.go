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
	mu      sync.Mutex         // protects following fields
	entries []entry            // in the order in which they were added
	gone    map[account]*Stage // the last of these that has left its key
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
	if s.is(gone) {
		b.leftLocked(s)
	}
}

// left says that s has left its key.
func (b *backlog) left(s *Stage) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if s.outbox.Listed() { // else add says so, if s has something to send later
		b.leftLocked(s)
	}
}

func (b *backlog) leftLocked(s *Stage) {
	if b.gone == nil {
		b.gone = make(map[account]*Stage)
	}
	b.gone[account{s.under, s.Key()}] = s
}

// before is the Stage that has left the key of s and has unsent charges for the same bucket; nil if
// there is none.
func (b *backlog) before(s *Stage) *Stage {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.gone[account{s.under, s.Key()}]
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
		} else if of := (account{e.under, e.Key()}); b.gone[of] == e.Stage {
			delete(b.gone, of)
		}
	}
	clear(b.entries[len(kept):])
	b.entries = fit.Slice(kept)
	if len(b.gone) == 0 { // a map keeps the memory of the keys that were in it
		b.gone = nil
	}
}

// stays reports whether e stays listed. left counts those that have left their keys.
func (e *entry) stays(now stage.Instant, left *int) bool {
	switch {
	case !e.HasUnsent():
		// A charge that is added from here on lists it again.
		e.outbox.Unlist()
		return e.HasUnsent() && e.outbox.List()
	case !e.is(gone):
		return true
	case e.until == 0:
		e.until = now.Add(sendsFor)
	}
	if *left++; *left > maxBacklog || now >= e.until {
		e.outbox.Unlist()
		return false
	}
	return true
}
