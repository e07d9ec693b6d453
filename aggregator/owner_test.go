// SPDX-License-Identifier: Apache-2.0

package aggregator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// recorder notes what it is told, and fails as it is told to.
type recorder struct {
	aggregator.NoLifecycle
	told []string
	fail func() error
}

func (r *recorder) Update(context.Context, string, *anypb.Any) (*anypb.Any, error) {
	panic("no message is for it")
}

func (r *recorder) note(what string, args ...any) error {
	r.told = append(r.told, fmt.Sprintf(what, args...))
	if r.fail != nil {
		return r.fail()
	}
	return nil
}

func (r *recorder) Configure(limits *dynamicconfig.Snapshot) error { return r.note("configure") }

func (r *recorder) RingMoved(c aggregator.Cluster) { _ = r.note("ring: owns k: %v", c.Owns("k")) }

func (r *recorder) HandOver(_ context.Context, c aggregator.Cluster) error {
	return r.note("hand over: leaving %v", c.Leaving)
}

func (r *recorder) Sweep(time.Time) { _ = r.note("sweep") }

// owner is a Placement with one owner.
type owner string

func (o owner) Owner(string) string { return string(o) }

func TestOwnersShareTheirLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(bytes.Buffer)
		one, failing, panicking := &recorder{}, &recorder{fail: func() error { return errors.New("a reason") }}, &recorder{fail: func() error { panic("a defect") }}
		owners := aggregator.Owners{All: []aggregator.Owner{failing, panicking, one}, Log: slog.New(slog.NewTextHandler(log, nil))}
		owners.Configure(nil)
		owners.RingMoved(aggregator.Cluster{Placement: owner("me"), Self: "me"})
		owners.HandOver(t.Context(), aggregator.Cluster{Placement: owner("me"), Self: "me", Leaving: true})
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		owners.Run(ctx, func() time.Duration { return time.Second })
		want := []string{"configure", "ring: owns k: true", "hand over: leaving true", "sweep", "sweep"}
		for _, r := range owners.All {
			if r, ok := r.(*recorder); !ok || !slices.Equal(r.told, want) {
				t.Errorf("told of %q, want %q", r.told, want)
			}
		}
		for _, want := range []string{"a reason", "a defect", "level=ERROR msg=\"an owner of keys keeps its old limits", "level=WARN msg=\"an owner of keys did not hand over"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q: %s", want, log)
			}
		}
	})
}

// An owner is anybody's code: one that waits for ever stops neither the others nor its host,
// and hears of the latest ring and limits when it returns.
func TestAnOwnerThatDoesNotReturnKeepsNoOtherFromBeingTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, log := make(chan struct{}), new(bytes.Buffer)
		hangs := &locked{hang: release}
		one := new(locked)
		owners := aggregator.Owners{All: []aggregator.Owner{hangs, one}, Log: slog.New(slog.NewTextHandler(log, nil))}
		began := time.Now()
		for range 3 {
			owners.Configure(nil)
			owners.RingMoved(aggregator.Cluster{Placement: owner("me"), Self: "me"})
		}
		owners.RingMoved(aggregator.Cluster{Placement: owner("other"), Self: "me"})
		for range 100 { // the ring moves again and again
			owners.HandOver(t.Context(), aggregator.Cluster{Placement: owner("me"), Self: "me"})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		owners.HandOver(ctx, aggregator.Cluster{Placement: owner("me"), Self: "me", Leaving: true})
		ctx, cancel = context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		owners.Run(ctx, func() time.Duration { return time.Second })
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		synctest.Wait() // a hand-over may begin when its time has ended
		want := "configure,configure,configure," + strings.Repeat("hand over: leaving false,", 100) + "hand over: leaving true,ring: owns k: false,ring: owns k: true,ring: owns k: true,ring: owns k: true,sweep,sweep"
		if got := one.all(); !strings.HasPrefix(got, want) {
			t.Errorf("the other is told %q, want %q", got, want)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait() // a line may be due just now
		if n := strings.Count(log.String(), "does not return"); n != 4 {
			t.Errorf("%d lines, want one for each method: %s", n, log)
		}
		close(release)
		synctest.Wait()
		want = "configure,configure,hand over: leaving false,hand over: leaving false,hand over: leaving true,ring: owns k: false,ring: owns k: true,sweep,sweep"
		if got := hangs.all(); got != want {
			t.Errorf("the one that hung is told %q, want %q", got, want)
		}
	})
}

// locked notes what it is told, by methods that may run at the same time, and that return
// when hang is closed.
type locked struct {
	recorder
	mu   sync.Mutex    // protects told
	hang chan struct{} // nil: it does not hang
}

func (l *locked) note(what string, args ...any) {
	l.mu.Lock()
	_ = l.recorder.note(what, args...)
	l.mu.Unlock()
	if l.hang != nil {
		<-l.hang
	}
}

// all is what l was told, sorted.
func (l *locked) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(slices.Sorted(slices.Values(l.told)), ",")
}

func (l *locked) Configure(*dynamicconfig.Snapshot) error { l.note("configure"); return nil }

func (l *locked) RingMoved(c aggregator.Cluster) { l.note("ring: owns k: %v", c.Owns("k")) }

func (l *locked) HandOver(_ context.Context, c aggregator.Cluster) error {
	l.note("hand over: leaving %v", c.Leaving)
	return nil
}

func (l *locked) Sweep(time.Time) { l.note("sweep") }

// A payload that panics at each message must not fill the log, but its author needs to
// know where.
func TestThePanicsOfAnOwnerAreLoggedOnceWithTheirStack(t *testing.T) {
	log := new(bytes.Buffer)
	owners := aggregator.Owners{All: []aggregator.Owner{new(recorder)}, Log: slog.New(slog.NewTextHandler(log, nil))}
	decider := owners.Serve(owners.All[0])
	for range 100 {
		if _, err := decider.Update(t.Context(), "host", nil); err == nil || !strings.Contains(err.Error(), "no message is for it") {
			t.Fatalf("%v", err)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), "(*recorder).Update") {
		t.Errorf("%d lines: %s", lines, log)
	}
}

// A host without a proper name reaches no Owner: one that keeps names would keep it.
func TestAnOwnerHearsOfProperNamesOnly(t *testing.T) {
	owners := &aggregator.Owners{Log: slog.New(slog.DiscardHandler)}
	served := owners.Serve(&recorder{}) // which panics
	for _, host := range []string{"", strings.Repeat("h", rpc.MaxKeyLength+1)} {
		if _, err := served.Update(t.Context(), host, new(anypb.Any)); !errors.Is(err, rpc.ErrPayload) {
			t.Errorf("a name of %d bytes: %v, want a refusal", len(host), err)
		}
	}
}
