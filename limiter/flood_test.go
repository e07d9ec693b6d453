// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// lines counts the lines that f logs.
func lines(f func(log *slog.Logger)) int {
	var log bytes.Buffer
	f(slog.New(slog.NewTextHandler(&log, nil)))
	return bytes.Count(log.Bytes(), []byte("\n"))
}

func TestStrangersDoNotFloodTheLog(t *testing.T) {
	n := lines(func(log *slog.Logger) {
		g := NewGroup(snapshot(t, alone(1, 1)), 1, WithLogger(log))
		for i := range 5000 {
			allowAt(g.For(fmt.Sprint("stranger", i)), second+stage.Instant(i)*second/1000, 1)
		}
	})
	if n != 5 {
		t.Errorf("%d lines in 5 s about 5000 keys without a rule, want 5", n)
	}
}

func TestAShakyRemoteDoesNotFloodTheLog(t *testing.T) {
	for _, failure := range []error{errors.New("timeout"), stage.ErrNonsense} {
		n := lines(func(log *slog.Logger) {
			calls := 0
			shaky := remoteFunc(func(context.Context, stage.Operation) (stage.Outcome, error) {
				if calls++; calls%10 == 0 {
					return stage.Outcome{}, failure
				}
				return stage.Outcome{OK: true}, nil
			})
			rule := dynamicconfig.Rule{Key: "k", Limit: 10, Algorithm: "own"}
			g := NewGroup(snapshot(t, rule), 1, WithRemote("own", shaky), WithLogger(log), WithBackground(func(f func()) { f() }))
			for i := range 5000 {
				allowAt(g.For("k"), second+stage.Instant(i)*second/1000, 1)
			}
		})
		if n > 10 {
			t.Errorf("%v: %d lines in 5 s about 5000 events", failure, n)
		}
	}
}

// asks is a slog.Handler that looks at the limiters, as one may that adds to each line.
type asks struct {
	slog.Handler
	g **Group
}

func (a asks) Handle(ctx context.Context, r slog.Record) error {
	seen := make(chan struct{})
	go func() {
		(*a.g).Keys()
		close(seen)
	}()
	select {
	case <-seen:
		return a.Handler.Handle(ctx, r)
	case <-time.After(time.Minute):
		return errors.New("a lock is held while a line is logged")
	}
}

func TestNoLockIsHeldWhileALineIsLogged(t *testing.T) {
	if n := lines(func(log *slog.Logger) {
		var g *Group
		g = NewGroup(snapshot(t, alone(1, 1)), 1, WithLogger(slog.New(asks{log.Handler(), &g})))
		g.For("stranger").SetDemand(3)
	}); n != 1 {
		t.Errorf("%d lines about a key without a rule, want 1", n)
	}
}

// Code of somebody else's that panics each time is logged from time to time.
func TestPanicsDoNotFloodTheLog(t *testing.T) {
	rule := dynamicconfig.Rule{Key: "k", Limit: 10, Algorithm: "own"}
	for name, run := range map[string]func(ctx context.Context, log *slog.Logger){
		"a remote": func(_ context.Context, log *slog.Logger) {
			g := NewGroup(snapshot(t, rule), 1, WithLogger(log), WithRemote("own", remoteFunc(func(context.Context, stage.Operation) (stage.Outcome, error) {
				panic("a defect")
			})))
			for range 5000 {
				g.For("k").Allow()
				time.Sleep(time.Millisecond)
			}
		},
		"a listener": func(ctx context.Context, log *slog.Logger) {
			g := NewGroup(snapshot(t, alone(10, 10)), 1, WithLogger(log), WithListener(func([]Event) { panic("a defect") }))
			go g.Run(ctx, updater(func(context.Context, *usage.Report, func(usage.Part, *usage.Grants, error)) {}))
			for range 5000 {
				g.For("k").Allow()
				time.Sleep(time.Millisecond)
			}
		},
		"an updater": func(ctx context.Context, log *slog.Logger) {
			g := NewGroup(snapshot(t, dynamicconfig.Rule{Key: "k", Limit: 10, Algorithm: "elastic"}), 1, WithLogger(log))
			go g.Run(ctx, updater(func(context.Context, *usage.Report, func(usage.Part, *usage.Grants, error)) { panic("a defect") }))
			for range 5000 {
				g.For("k").Allow()
				time.Sleep(time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				n := lines(func(log *slog.Logger) {
					run(ctx, log)
					cancel()
					synctest.Wait()
				})
				if n == 0 || n > 7 {
					t.Errorf("%d lines in 5 s", n)
				}
			})
		})
	}
}
