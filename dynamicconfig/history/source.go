// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

var _ dynamicconfig.Source = (*Source)(nil)

// Source is the newest version of a store as a source of limits. Safe for concurrent
// use. Make it with NewSource.
type Source struct {
	store Store
	poll  time.Duration

	mu     sync.Mutex // guards what follows
	loaded state      // what the last Load found
}

// DefaultPoll is how often a Source asks its store by default.
const DefaultPoll = 500 * time.Millisecond

// timeout bounds how long the store may take to answer a Source.
const timeout = 5 * time.Second

// state is what a Source found, for comparison.
type state struct {
	seen    bool    // false: nothing was read yet
	version Version // without Text; zero if the store did not answer with one
	broken  string  // what is wrong with the version's text
}

// NewSource makes a Source of store. It asks the store every poll, which is DefaultPoll if
// 0, and whenever the store notifies. Longer costs the store less, and delays changes whose
// notification is lost.
func NewSource(store Store, poll time.Duration) *Source {
	if poll <= 0 {
		poll = DefaultPoll
	}
	return &Source{store: store, poll: poll}
}

// Load implements dynamicconfig.Source. Its error matches ErrEmpty if there is no version.
func (s *Source) Load(ctx context.Context) (*dynamicconfig.Snapshot, error) {
	snapshot, now, err := s.read(ctx, state{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = now
	return snapshot, err
}

// read reads and parses the newest version. It returns no snapshot if that is what was
// reported last.
func (s *Source) read(ctx context.Context, reported state) (*dynamicconfig.Snapshot, state, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	failed := func(err error) (*dynamicconfig.Snapshot, state, error) {
		return nil, state{seen: true}, err // reported once, also if the reason changes
	}
	newest, err := s.store.Newest(ctx)
	if err != nil {
		return failed(err)
	}
	now := state{seen: true, version: newest}
	if now == reported {
		return nil, now, nil
	}
	whole, err := s.store.Get(ctx, newest.Number)
	if errors.Is(err, ErrNoVersion) { // pruned since, because there is a newer one
		err = errors.New("the newest version was pruned while it was read")
	}
	if err != nil {
		return failed(err)
	}
	snapshot, err := whole.Parse()
	if err != nil {
		now.broken = err.Error()
	}
	return snapshot, now, err
}

// look reads the newest version and reports it, if it is not what was reported last.
func (s *Source) look(ctx context.Context, reported state, update func(*dynamicconfig.Snapshot, error)) state {
	snapshot, now, err := s.read(ctx, reported)
	if now == reported || ctx.Err() != nil {
		return reported
	}
	update(snapshot, err)
	return now
}
