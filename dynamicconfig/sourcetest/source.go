// SPDX-License-Identifier: Apache-2.0

package sourcetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
)

// Place is where a source finds its configuration, for a test that changes it.
type Place struct {
	Source dynamicconfig.Source

	// Put makes text the configuration.
	Put func(text string)

	// Break makes the configuration broken or gone, until the next Put. The earlier one
	// may be back before that one is there.
	Break func()
}

// patience bounds how long a test waits for what must come.
const patience = 30 * time.Second

// limits is a config file with a limit of n/s for the key "a".
func limits(n int) string { return fmt.Sprintf("limits: [{key: a, limit: %d/s}]\n", n) }

// Source tests a source. open makes a new place, which is empty.
func Source(t *testing.T, open func(t *testing.T) Place) {
	t.Run("Load returns the present configuration", func(t *testing.T) {
		p := open(t)
		p.Put(limits(1))
		p.expectLoad(t, 1)
		p.Put(limits(2))
		p.expectLoad(t, 2)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		p.expectNoLoad(t, ended, "after the end of its context")
	})
	t.Run("a missing or broken configuration is an error of Load", func(t *testing.T) {
		p := open(t)
		p.expectNoLoad(t, t.Context(), "before the first Put")
		p.Put(limits(1))
		p.Break()
		p.expectNoLoad(t, t.Context(), "after Break")
	})
	t.Run("Watch reports each change since Load", func(t *testing.T) {
		p := open(t)
		p.Put(limits(1))
		p.expectLoad(t, 1)
		p.Put(limits(2)) // before Watch begins
		w := p.watch(t)
		for n := 2; n < 7; n++ {
			w.expect(t, n)
			p.Put(limits(n + 1))
		}
		w.expect(t, 7)
		w.end(t)
		p.Put(limits(8))
		w.expectNothing(t)
	})
	t.Run("Watch without Load begins with the present configuration", func(t *testing.T) {
		p := open(t)
		p.Put(limits(1))
		p.watch(t).expect(t, 1)
	})
	t.Run("Watch goes on after what is broken, and reports it once", func(t *testing.T) {
		p := open(t)
		p.Put(limits(1))
		w := p.watch(t)
		w.expect(t, 1)
		for n := 2; n < 4; n++ {
			p.Break()
			w.expectError(t)
			p.Put(limits(n))
			w.expectBack(t, n)
		}
		w.end(t)
		w.expectNothing(t)
	})
	t.Run("Watch begins before there is a configuration", func(t *testing.T) {
		p := open(t)
		w := p.watch(t)
		w.expectError(t)
		p.Put(limits(1))
		w.expect(t, 1)
	})
	t.Run("a Live keeps the last good configuration", func(t *testing.T) {
		p := open(t)
		p.Put(limits(1))
		live := dynamicconfig.NewLive(nil)
		applied := make(chan rate.Limit, 100)
		live.Subscribe(func(_, s *dynamicconfig.Snapshot) { applied <- limitOf(s) })
		refused := make(chan struct{}, 100)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			live.Run(ctx, tapped{p.Source, refused}, nil)
		}()
		defer func() { cancel(); <-done }()
		expect := func(want int) {
			t.Helper()
			if got := next(t, applied, "Watch did not report a change"); got != rate.Limit(want) {
				t.Fatalf("the limit in force is %v, want %d", got, want)
			}
		}
		expect(1)
		p.Break()
		next(t, refused, "Watch did not report a broken configuration, with an error")
		if got := limitOf(live.Current()); got != 1 {
			t.Errorf("while the configuration is broken, the limit is %v, want 1", got)
		}
		p.Put(limits(2)) // 1 is no change, if that is back first
		expect(2)
		if got := len(applied); got != 0 {
			t.Errorf("%d changes too many", got)
		}
	})
}

// tapped is a source that sends refused each broken configuration.
type tapped struct {
	dynamicconfig.Source
	refused chan<- struct{}
}

func (s tapped) Watch(ctx context.Context, update func(*dynamicconfig.Snapshot, error)) error {
	return s.Source.Watch(ctx, func(snapshot *dynamicconfig.Snapshot, err error) {
		update(snapshot, err)
		if err != nil {
			s.refused <- struct{}{}
		}
	})
}

func limitOf(s *dynamicconfig.Snapshot) rate.Limit {
	if r, ok := s.Match("a"); ok {
		return r.Limit
	}
	return -1
}

func (p Place) expectLoad(t *testing.T, want int) {
	t.Helper()
	s, err := p.Source.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := limitOf(s); got != rate.Limit(want) {
		t.Fatalf("Load: the limit is %v, want %d", got, want)
	}
}

func (p Place) expectNoLoad(t *testing.T, ctx context.Context, when string) {
	t.Helper()
	if s, err := p.Source.Load(ctx); err == nil {
		t.Errorf("Load %s returned no error", when)
	} else if s != nil {
		t.Errorf("Load %s returned a Snapshot beside the error %v", when, err)
	}
}

// told is one call of update.
type told struct {
	limit rate.Limit
	err   error
}

// watch is a running Watch, which ends with the test if not before.
type watch struct {
	told chan told
	stop func() error
}

func (p Place) watch(t *testing.T) *watch {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{told: make(chan told, 100)}
	done := make(chan error, 1)
	go func() {
		done <- p.Source.Watch(ctx, func(s *dynamicconfig.Snapshot, err error) {
			if s == nil {
				w.told <- told{err: err}
				return
			}
			w.told <- told{limitOf(s), err}
		})
	}()
	ended := false
	w.stop = func() error {
		if ended {
			return nil
		}
		ended = true
		cancel()
		return next(t, done, "Watch did not return at the end of its context")
	}
	t.Cleanup(func() { _ = w.stop() })
	return w
}

// end ends the watch.
func (w *watch) end(t *testing.T) {
	t.Helper()
	if err := w.stop(); err != nil {
		t.Errorf("Watch = %v, want nil when its context ends", err)
	}
}

func (w *watch) expect(t *testing.T, want int) {
	t.Helper()
	if got := next(t, w.told, fmt.Sprintf("Watch did not call update with the limit %d", want)); got.err != nil || got.limit != rate.Limit(want) {
		t.Fatalf("Watch told %v, %v; want the limit %d", got.limit, got.err, want)
	}
}

// expectBack is expect after what was broken.
func (w *watch) expectBack(t *testing.T, want int) {
	t.Helper()
	missing := fmt.Sprintf("Watch did not call update with the limit %d, after what was broken", want)
	got := next(t, w.told, missing)
	if got.err == nil && got.limit == rate.Limit(want-1) {
		got = next(t, w.told, missing)
	}
	if got.err != nil || got.limit != rate.Limit(want) {
		t.Fatalf("Watch told %v, %v; want the limit %d", got.limit, got.err, want)
	}
}

func (w *watch) expectError(t *testing.T) {
	t.Helper()
	if got := next(t, w.told, "Watch did not call update with an error"); got.err == nil || strings.TrimSpace(got.err.Error()) == "" {
		t.Fatalf("Watch told %+v, want an error", got)
	}
}

func (w *watch) expectNothing(t *testing.T) {
	t.Helper()
	if len(w.told) > 0 {
		t.Errorf("Watch also told %+v", <-w.told)
	}
}

// next waits for what comes from c. missing is the failure if nothing comes.
func next[T any](t *testing.T, c <-chan T, missing string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s within %v", missing, patience)
	}
	return v
}
