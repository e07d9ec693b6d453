// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"maps"
	"sync"

	"github.com/headgate/headgate/limiter/stage"
)

// Decided is a decision about a key that is traced.
type Decided struct {
	stage.Verdict

	At stage.Instant
	N  int64 // tokens

	// Why a caller was refused whom a door did not let in; nil for what was decided here.
	Why error
}

// Bounds of traces.
const (
	MaxTraced = 64  // keys
	maxTrace  = 256 // decisions of each
)

// traces remember decisions, by key. The map does not change once it is in use.
type traces map[string]*trace

// trace is the newest decisions about one key: a ring.
type trace struct {
	mu   sync.Mutex // guards what follows
	last []Decided
	next int // where the next one goes, once there are maxTrace
}

func (t *trace) add(d Decided) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.last) < maxTrace {
		t.last = append(t.last, d)
		return
	}
	t.last[t.next] = d
	t.next = (t.next + 1) % maxTrace
}

// all are the decisions, the oldest first.
func (t *trace) all() []Decided {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(append([]Decided(nil), t.last[t.next:]...), t.last[:t.next]...)
}

// decided remembers a decision about key, if that is traced.
func (t *traces) decided(key string, d Decided) {
	if t == nil {
		return
	}
	if of := (*t)[key]; of != nil {
		of.add(d)
	}
}

// traced reports whether decisions about a key are remembered.
func (t *traces) traced(key string) bool {
	if t == nil {
		return false
	}
	_, ok := (*t)[key]
	return ok
}

// Trace begins or ends to remember decisions about a key. It returns false if MaxTraced
// keys are traced already.
func (s *Set) Trace(name string, on bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	next := make(traces)
	if now := s.traces.Load(); now != nil {
		next = maps.Clone(*now)
	}
	switch {
	case !on:
		delete(next, name)
	case next[name] != nil:
		return true
	case len(next) >= MaxTraced:
		return false
	default:
		next[name] = new(trace)
	}
	if len(next) == 0 {
		s.traces.Store(nil)
	} else {
		s.traces.Store(&next)
	}
	s.table.Barrier() // what is admitted from now on is plain or not as next says
	s.mergeLocked()
	if k := s.table.Get(name); k != nil {
		if st := k.state.Load(); st.live() && st.pair[0] != nil {
			s.renewLocked(k, st)
		}
	}
	return true
}

// Denied remembers that a caller was refused before anything was decided about a key, if
// the key is traced.
func (s *Set) Denied(now stage.Instant, name string, why error) {
	s.traces.Load().decided(name, Decided{Verdict: stage.Because(stage.Forbidden), At: now, Why: why})
}

// Traced returns the newest decisions about a key, the oldest first. It returns false if
// the key is not traced.
func (s *Set) Traced(name string) ([]Decided, bool) {
	all := s.traces.Load()
	if all == nil || (*all)[name] == nil {
		return nil, false
	}
	return (*all)[name].all(), true
}

// TracedKeys are the keys that are traced, in no order.
func (s *Set) TracedKeys() (names []string) {
	if all := s.traces.Load(); all != nil {
		for name := range *all {
			names = append(names, name)
		}
	}
	return names
}
