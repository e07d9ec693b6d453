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
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
)

// movingSlots is the config of 10 slots in flight under an algorithm that
// changes.
func movingSlots(t testing.TB, mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
	t.Helper()
	return snapshot(t, dynamicconfig.Rule{
		Limit: 10, InFlight: true, Lease: time.Hour,
		Migration: &dynamicconfig.Migration{From: "proportional-share", To: "fair-share", Mode: mode},
	})
}

// slotsGroup is a Group whose key k goes from 3 slots to 5.
func slotsGroup(t testing.TB, mode dynamicconfig.Mode) *limiter.Group {
	t.Helper()
	g := newGroup(movingSlots(t, mode), 10)
	g.For("k").Tokens()
	now := stage.Now().Add(time.Second)
	for _, b := range driver.Of(g).Report(now) {
		weight := map[string]float64{"proportional-share": 0.3, "fair-share": 0.5}[b.Usage.Algorithm]
		if err := driver.Of(g).Apply(now, b, nil, grant(weight, 0, time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// held is how many slots of k are held under the old and the new algorithm.
func held(t testing.TB, g *limiter.Group) [2]int64 {
	t.Helper()
	st, ok := g.Inspect("k")
	if !ok || len(st.Shares) != 2 {
		t.Fatalf("%+v", st)
	}
	return [2]int64{st.Shares[0].Held, st.Shares[1].Held}
}

func TestAGroupMigratesSlots(t *testing.T) {
	for _, tt := range []struct {
		mode dynamicconfig.Mode
		got  int // of 9 that are asked for
		held [2]int64
	}{
		{disabled, 9, [2]int64{}},
		{old, 3, [2]int64{3, 0}},
		{oldShadowNew, 3, [2]int64{3, 3}},
		{newShadowOld, 5, [2]int64{3, 5}},
		{onlyNew, 5, [2]int64{0, 5}},
	} {
		g := slotsGroup(t, tt.mode)
		k := g.For("k")
		var releases []func()
		for range 9 {
			if release, ok := k.TryAcquire(1); ok {
				releases = append(releases, release)
			}
		}
		if got := held(t, g); len(releases) != tt.got || got != tt.held {
			t.Errorf("%v: got %d, held %v; want %+v", tt.mode, len(releases), got, tt)
		}
		if err := k.Wait(t.Context()); k.Allow() || !errors.Is(err, limiter.ErrInFlight) {
			t.Errorf("%v: an event is allowed that has no end: %v", tt.mode, err)
		}
		for _, release := range releases {
			release()
			release()
		}
		if got := held(t, g); got != [2]int64{} {
			t.Errorf("%v: %v are held for ever", tt.mode, got)
		}
	}
}

func TestAGroupMigratesSlotsThatAreWaitedFor(t *testing.T) {
	for _, mode := range modes[1:] {
		bubble(t, func(t *testing.T) {
			g := slotsGroup(t, mode)
			k := g.For("k")
			first, err := k.Acquire(t.Context(), int(k.Limit()))
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
			if got := held(t, g); got != [2]int64{} {
				t.Errorf("%v: %v are held for ever", mode, got)
			}
		})
	}
}

func TestAChangeOfModeKeepsTheSlotsThatAreHeld(t *testing.T) {
	g := slotsGroup(t, oldShadowNew)
	k := g.For("k")
	release, ok := k.TryAcquire(3)
	if !ok {
		t.Fatal("no slots")
	}
	g.Configure(movingSlots(t, newShadowOld))
	if got := held(t, g); got != [2]int64{3, 3} {
		t.Errorf("%v are held", got)
	}
	if _, ok := k.TryAcquire(3); ok {
		t.Error("the switch gave slots twice")
	}
	release()
	if _, ok := k.TryAcquire(5); !ok {
		t.Error("slots did not come back")
	}
}
