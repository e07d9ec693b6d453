// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/rpc"
)

// slots is a Group whose key k goes from 3 slots of one algorithm to 5 of another.
func slots(t testing.TB, mode dynamicconfig.Mode) *limiter.Group {
	t.Helper()
	g := limiter.NewGroup(slotsStage(t, mode), 10, limiter.WithMigration(migration))
	g.For("k").Level(0)
	for _, b := range g.Report(second) {
		weight := 0.3
		if b.Usage.Algorithm == "fair-share" {
			weight = 0.5
		}
		err := g.Apply(second, b, nil, &rpc.Grants{
			Weight: []float64{weight}, Burst: []float64{0}, Used: []float64{0}, Lease: []time.Duration{time.Hour},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func slotsStage(t testing.TB, mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{
		Key: "k", Limit: 10, InFlight: true, IdleAfter: time.Hour, Lease: time.Hour,
		Migration: &dynamicconfig.Migration{From: "proportional-share", To: "fair-share", Mode: mode},
	}}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// held by the old and by the new algorithm.
func held(t testing.TB, g *limiter.Group) (old, new int64) {
	t.Helper()
	st, ok := g.Inspect(second, "k")
	if !ok || len(st.Shares) != 2 {
		t.Fatalf("%+v", st)
	}
	return st.Shares[0].Held, st.Shares[1].Held
}

func TestSlotsInEachMode(t *testing.T) {
	for _, tt := range []struct {
		mode             dynamicconfig.Mode
		got              int // of 9 that are asked for
		heldOld, heldNew int64
	}{
		{disabled, 9, 0, 0},
		{old, 3, 3, 0},
		{oldShadowNew, 3, 3, 3}, // what the old one refused does not go on
		{newShadowOld, 5, 3, 5},
		{onlyNew, 5, 0, 5},
	} {
		g := slots(t, tt.mode)
		k := g.For("k")
		var holds []limiter.Hold
		for range 9 {
			if h, ok := k.TryAcquireAt(second, 1); ok {
				holds = append(holds, h)
			}
		}
		if old, new := held(t, g); len(holds) != tt.got || old != tt.heldOld || new != tt.heldNew {
			t.Errorf("%v: got %d, held %d and %d; want %+v", tt.mode, len(holds), old, new, tt)
		}
		if k.AllowAt(second, 1) != (tt.mode == disabled) {
			t.Errorf("%v: an event is allowed that nobody ends", tt.mode)
		}
		for _, h := range holds {
			h.Release()
			h.Release()
		}
		if old, new := held(t, g); old != 0 || new != 0 {
			t.Errorf("%v: %d and %d are held for ever", tt.mode, old, new)
		}
	}
}

func TestWaitingForSlotsInEachMode(t *testing.T) {
	for _, mode := range []dynamicconfig.Mode{old, oldShadowNew, newShadowOld, onlyNew} {
		synctest.Test(t, func(t *testing.T) {
			g := slots(t, mode)
			k := g.For("k")
			size := int(k.Level(second).Limit)
			first, err := k.Acquire(t.Context(), size)
			if err != nil {
				t.Fatal(mode, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := k.Acquire(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v: %v", mode, err)
			}
			done := make(chan func(), 1)
			go func() {
				release, err := k.Acquire(t.Context(), 2, limiter.Priority(1))
				if err != nil {
					t.Error(mode, err)
				}
				done <- release
			}()
			synctest.Wait()
			first()
			(<-done)()
			if old, new := held(t, g); old != 0 || new != 0 {
				t.Errorf("%v: %d and %d are held for ever", mode, old, new)
			}
		})
	}
}

func TestASwitchKeepsWhatBothHold(t *testing.T) {
	g := slots(t, oldShadowNew)
	k := g.For("k")
	release, ok := k.TryAcquire(3)
	if !ok {
		t.Fatal("no slots")
	}
	g.Configure(second, slotsStage(t, newShadowOld))
	if old, new := held(t, g); old != 3 || new != 3 {
		t.Errorf("%d and %d", old, new)
	}
	if _, ok := k.TryAcquire(3); ok {
		t.Error("the switch gave slots twice")
	}
	release()
	if _, ok := k.TryAcquire(5); !ok {
		t.Error("slots did not come back")
	}
}

func TestAShadowOfSlotsIsCompared(t *testing.T) {
	g := slots(t, newShadowOld)
	l := New(limiter.NewBucket(5, 5), g.For("k"), oldShadowNew)
	var releases []func()
	for range 8 {
		release, ok := l.TryAcquire(1)
		if ok {
			releases = append(releases, release)
		}
	}
	if c := l.Counts(); c.Both != 5 || c.Neither+c.OnlyNew != 3 {
		t.Errorf("%+v", c)
	}
	for _, release := range releases {
		release()
	}
	if old, new := held(t, g); old != 0 || new != 0 {
		t.Errorf("%d and %d are held for ever", old, new)
	}
	// Limiters that know nothing of Steppers.
	l = New(newForeign(5, 2), newForeign(5, 1), oldShadowNew)
	for i, want := range []bool{true, true, false} {
		release, err := l.Acquire(canceledAfter(t), 1)
		if release(); (err == nil) != want {
			t.Errorf("%d: %v", i, err)
		}
	}
	if c := l.Counts(); c != (Counts{Both: 1, OnlyOld: 1, Neither: 1}) {
		t.Errorf("%+v", c)
	}
}

// canceledAfter ends too soon for a wait.
func canceledAfter(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestBothHearOfStatedDemand(t *testing.T) {
	g := slots(t, oldShadowNew)
	k := g.For("k")
	New(k, limiter.NewBucket(1, 1), old).SetDemand(7)
	n := 0
	for _, b := range g.Report(2 * second) {
		n++
		if b.Usage.Wants[0] != 7 {
			t.Errorf("%s: %v", b.Usage.Algorithm, b.Usage.Wants)
		}
	}
	if n != 2 {
		t.Errorf("%d batches", n)
	}
}
