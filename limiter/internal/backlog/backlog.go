// SPDX-License-Identifier: Apache-2.0

// Package backlog lists the Stages that still have charges to send to remote buckets. The package does not
// know what a charge is for, and sends none itself. One lock guards the list, and no lock is held while a
// Stage sends a charge.
package backlog

import (
	"sync"
	"time"

	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/internal/fit"
	"github.com/headgate/headgate/limiter/stage"
)

const (
	// sendsFor is how long a Stage that has left its key goes on sending its charges. After
	// that time, the bucket of a usual limit would be full again.
	sendsFor = 10 * time.Minute

	// most bounds the Stages that have left their keys and still send.
	most = 1 << 16
)

// Stage is what may have unsent charges. Its methods are safe for concurrent use, and do not block.
type Stage interface {
	comparable

	Account() Account
	Outbox() *elsewhere.Outbox // of the charges

	// Gone reports whether the Stage has left its key.
	Gone() bool
}

// Account is the remote bucket of a key, and the algorithm under which it is asked.
type Account struct {
	Under    string
	Measured bool // as in stage.Operation
	Key      string
}

// Backlog lists the Stages with unsent charges. The zero Backlog is empty. It is safe for concurrent use.
type Backlog[S Stage] struct {
	mu      sync.Mutex    // protects following fields
	entries []entry[S]    // in the order in which they were added
	gone    map[Account]S // the last of these that has left its key
}

// entry is a Stage of a Backlog.
type entry[S Stage] struct {
	of    S
	until stage.Instant // the end of sendsFor; 0 while a key decides by the Stage
}

// Add adds s, which is not listed yet.
func (b *Backlog[S]) Add(s S) {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.entries = append(b.entries, entry[S]{of: s})
	if s.Gone() {
		b.leftLocked(s)
	}
}

// Left says that s has left its key.
func (b *Backlog[S]) Left(s S) {
	b.mu.Lock()
	defer b.mu.Unlock()

	if s.Outbox().Listed() { // else Add says so, if s has something to send later
		b.leftLocked(s)
	}
}

func (b *Backlog[S]) leftLocked(s S) {
	if b.gone == nil {
		b.gone = make(map[Account]S)
	}
	b.gone[s.Account()] = s
}

// Before is the Stage that has left the key of s and has unsent charges for the same bucket; the zero S
// if there is none.
func (b *Backlog[S]) Before(s S) S {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.gone[s.Account()]
}

// Stages are those that are listed.
func (b *Backlog[S]) Stages() []S {
	b.mu.Lock()
	defer b.mu.Unlock()

	all := make([]S, len(b.entries))
	for i, e := range b.entries {
		all[i] = e.of
	}
	return all
}

// Tidy removes Stages that have sent everything, and those that have left their keys if
// that was too long ago, or if there are too many.
func (b *Backlog[S]) Tidy(now stage.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()

	left := 0
	kept := b.entries[:0]
	for _, e := range b.entries {
		if e.stays(now, &left) {
			kept = append(kept, e)
		} else if of := e.of.Account(); b.gone[of] == e.of {
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
func (e *entry[S]) stays(now stage.Instant, left *int) bool {
	switch {
	case e.of.Outbox().Empty():
		// A charge that is added from here on lists it again.
		e.of.Outbox().Unlist()
		return !e.of.Outbox().Empty() && e.of.Outbox().List()
	case !e.of.Gone():
		return true
	case e.until == 0:
		e.until = now.Add(sendsFor)
	}
	if *left++; *left > most || now >= e.until {
		e.of.Outbox().Unlist()
		return false
	}
	return true
}
