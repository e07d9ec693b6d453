// SPDX-License-Identifier: Apache-2.0

// Package tracing remembers the newest decisions about a few keys.
//
//	var traces tracing.Traces
//	traces.Set("frontend:orders", true)
//	traces.Add("frontend:orders", tracing.Decided{Verdict: v, At: now, N: 1})
//	decided, ok := traces.Of("frontend:orders") // the oldest first
//
// It does not know who decides, or what for. One lock guards each trace, and decisions about keys
// without a trace take none.
package tracing

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/limiter/stage"
)

// Decided is a decision about a key that is traced.
type Decided struct {
	stage.Verdict

	At stage.Instant
	N  int64 // tokens

	// Why says why a door refused the caller; nil if the limiter decided.
	Why error
}

// Bounds of Traces.
const (
	MaxKeys = 64
	maxRing = 256 // decisions of each
)

// Traces are the keys that are traced. The zero Traces has none. All methods are safe
// for concurrent use, but Set is for one caller at a time.
type Traces struct {
	keys atomic.Pointer[map[string]*ring] // the map does not change; nil: no key is traced
}

// Any reports whether some key is traced.
func (t *Traces) Any() bool { return t.keys.Load() != nil }

// Has reports whether key is traced.
func (t *Traces) Has(key string) bool { return t.find(key) != nil }

// Set begins or ends to trace key. It returns false if MaxKeys keys are traced already.
func (t *Traces) Set(key string, on bool) bool {
	next := make(map[string]*ring)
	if now := t.keys.Load(); now != nil {
		next = maps.Clone(*now)
	}
	switch {
	case !on:
		delete(next, key)
	case next[key] != nil:
		return true
	case len(next) >= MaxKeys:
		return false
	default:
		next[key] = new(ring)
	}
	if len(next) == 0 {
		t.keys.Store(nil)
	} else {
		t.keys.Store(&next)
	}
	return true
}

// Add remembers a decision about key, if that is traced.
func (t *Traces) Add(key string, d Decided) {
	if of := t.find(key); of != nil {
		of.add(d)
	}
}

// Of returns the newest decisions about key, the oldest first. It returns false if key is
// not traced.
func (t *Traces) Of(key string) ([]Decided, bool) {
	of := t.find(key)
	if of == nil {
		return nil, false
	}
	return of.all(), true
}

func (t *Traces) find(key string) *ring {
	if all := t.keys.Load(); all != nil {
		return (*all)[key]
	}
	return nil
}

// ring is the newest decisions about one key.
type ring struct {
	mu   sync.Mutex // guards what follows
	last []Decided
	next int // where the next one goes, once there are maxRing
}

func (r *ring) add(d Decided) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if len(r.last) < maxRing {
		r.last = append(r.last, d)
		return
	}
	r.last[r.next] = d
	r.next = (r.next + 1) % maxRing
}

// all are the decisions, the oldest first.
func (r *ring) all() []Decided {
	r.mu.Lock()
	defer r.mu.Unlock()

	return slices.Concat(r.last[r.next:], r.last[:r.next])
}
