// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/subscribers"
)

// Live is the configuration that a process runs with: the last good
// Snapshot, and who wants to know when it changes. A broken configuration
// never replaces a good one. All methods are safe for concurrent use.
type Live struct {
	check func(*Snapshot) error

	// moved has room for one: what is current has changed. For followClock.
	moved chan struct{}

	// current is written under mu and read without it; who reads a
	// Snapshot sees all of it.
	current           atomic.Pointer[Snapshot]
	applied, rejected atomic.Int64

	subscribers subscribers.Of[change] // is given changes under mu, and delivers them without it
	log         atomic.Pointer[slog.Logger]

	mu         sync.Mutex // guards what follows
	lastErr    error
	since      time.Time // when what is current became so
	rejectedAt time.Time // zero: never
	properties []property
}

type change struct{ old, new *Snapshot }

// property is a typed value that follows a Live.
type property interface {
	// read takes the value out of s, and returns what makes it current.
	read(s *Snapshot) (commit func(), err error)
}

// LiveOption is a collaborator of a Live.
type LiveOption func(*Live)

// WithCheck makes Live refuse each new snapshot for which check returns an
// error, such as one that uses an algorithm which this process has not:
//
//	WithCheck(func(s *Snapshot) error { return s.Check(registry.Has) })
//
// check must not call the Live.
func WithCheck(check func(*Snapshot) error) LiveOption {
	return func(l *Live) {
		if check != nil {
			l.check = check
		}
	}
}

// NewLive begins with initial, which is not checked by WithCheck. A nil
// initial stands for a configuration without rules, which allows all.
func NewLive(initial *Snapshot, options ...LiveOption) *Live {
	l := &Live{check: func(*Snapshot) error { return nil }, since: now(), moved: make(chan struct{}, 1)}
	l.log.Store(slog.Default())
	for _, o := range options {
		o(l)
	}
	if initial == nil {
		initial, _ = Config{}.Snapshot() // the zero Config is valid
	}
	l.current.Store(initial.At(now()))
	return l
}

// Current is the last good snapshot, with the Overrides that hold, never nil. They end
// while Run runs.
func (l *Live) Current() *Snapshot { return l.current.Load() }

// Applied counts the configurations that became current after the first one.
func (l *Live) Applied() int64 { return l.applied.Load() }

// Rejected counts the configurations that were refused: broken ones that a
// source reported, and those that Set returned an error for.
func (l *Live) Rejected() int64 { return l.rejected.Load() }

// Since is when Current became current, by the wall clock.
func (l *Live) Since() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.since
}

// RejectedAt is when a configuration was last refused, by the wall clock; zero if
// none was.
func (l *Live) RejectedAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rejectedAt
}

// LastError is why the newest configuration is not the current one; nil
// when it is.
func (l *Live) LastError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastErr
}

// Check returns why Set would refuse s because of WithCheck; nil if it would not.
func (l *Live) Check(s *Snapshot) error { return l.check(s) }

// Set makes s current and notifies the subscribers, or refuses it whole: when
// it is nil, when WithCheck's check refuses it, or when a typed property
// finds a value of another type. A snapshot of the Version that is current
// changes nothing. Set returns once its subscribers have been notified, or, when
// another Set is telling them, leaves it to that one.
func (l *Live) Set(s *Snapshot) error {
	err := l.set(s)
	if err != nil {
		l.reject(err)
	}
	l.subscribers.Deliver(l.log.Load())
	return err
}

// reject keeps what is current and remembers why.
func (l *Live) reject(err error) {
	l.rejected.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastErr, l.rejectedAt = err, now()
}

func (l *Live) set(s *Snapshot) error {
	if s == nil {
		return errors.New("dynamicconfig: a nil snapshot: make one with Parse or Config")
	}
	if err := l.check(s); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var commits []func()
	var errs []error
	for _, p := range l.properties {
		commit, err := p.read(s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		commits = append(commits, commit)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.lastErr = nil
	if l.current.Load().Version() == s.Version() {
		return nil
	}
	for _, commit := range commits {
		commit()
	}
	l.applied.Add(1)
	l.replaceLocked(s.At(now()))
	return nil
}

// replaceLocked makes s current.
func (l *Live) replaceLocked(s *Snapshot) {
	old := l.current.Swap(s)
	l.subscribers.Change(change{old, s})
	l.since = now()
	select {
	case l.moved <- struct{}{}:
	default: // the last one was not taken in yet
	}
}

// endOverrides makes what is current follow the clock, and returns the Overrides that
// held until now and do not any more, and when the next one ends; zero if none does.
func (l *Live) endOverrides() (ended []Override, next time.Time) {
	l.mu.Lock()
	old := l.current.Load()
	s := old.At(now())
	next, _ = nextEnd(s)
	changed := !slices.Equal(old.overlay.Holds, s.overlay.Holds)
	if changed {
		ended = Ended(old, s)
		l.replaceLocked(s)
	}
	l.mu.Unlock()
	if changed {
		l.subscribers.Deliver(l.log.Load())
	}
	return ended, next
}

// Subscribe has call called with each later change, the end of an Override included, one
// call at a time and in order. In call, l.Current may already be newer than new. To miss nothing,
// subscribe first and read Current then. cancel ends it; one call may still
// be running when cancel returns. call may use the Live, Set included; it
// delays the other subscribers for as long as it takes. If call panics, Run's logger logs it, or
// slog.Default before Run.
func (l *Live) Subscribe(call func(old, new *Snapshot)) (cancel func()) {
	return l.subscribers.Add(func(c change) { call(c.old, c.new) })
}

// register adds p, and reads the current value into it.
func (l *Live) register(p property) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.properties = append(l.properties, p)
	commit, err := p.read(l.current.Load())
	if err != nil {
		l.lastErr = fmt.Errorf("the default is used: %w", err)
		return
	}
	commit()
}
