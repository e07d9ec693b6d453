// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// These are the defects of issue 13 that concern a migration.

// Defect 7.
func TestAWaiterHoldsOnceWhenTheMigrationEnds(t *testing.T) {
	config := func(m *dynamicconfig.Migration) *dynamicconfig.Snapshot {
		r := dynamicconfig.Rule{Key: "k", Limit: 4, InFlight: true, Lease: 10 * time.Second, IdleAfter: time.Hour}
		if r.Migration = m; m == nil {
			r.Algorithm = "fair-share"
		}
		s, err := dynamicconfig.Config{Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{r}}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	synctest.Test(t, func(t *testing.T) {
		m := &dynamicconfig.Migration{From: "static", To: "fair-share", Mode: dynamicconfig.ModeOldShadowNew}
		g := limiter.NewGroup(config(m), 1, limiter.WithMigration(shadow.Migrator()))
		k := g.For("k")
		var releases []func()
		for range 4 {
			release, ok := k.TryAcquire(1)
			if !ok {
				t.Fatal("no slot")
			}
			releases = append(releases, release)
		}
		var release func()
		go func() {
			var err error
			if release, err = k.Acquire(context.Background(), 1); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		g.Configure(config(nil))
		synctest.Wait()
		for i := range 3 {
			releases[i]()
		}
		synctest.Wait()
		if st, _ := g.Inspect("k"); len(st.Shares) != 1 || st.Shares[0].Held != 2 {
			t.Errorf("two holders of one slot each, and it shows %+v", st.Shares)
		}
		releases[3]()
		release()
		if st, _ := g.Inspect("k"); st.Shares[0].Held != 0 {
			t.Errorf("all is released, and it shows %+v", st.Shares)
		}
	})
}

// Defect 8.
func TestSomebodyElsesLimiterThatTakesOverGetsNoSecondBurst(t *testing.T) {
	for _, charged := range []int{4, 10, 12} {
		old, theirs := limiter.NewBucket(0, 10), rate.NewLimiter(0, 10)
		p := shadow.NewPair(0, old.Stage(), limiter.FromRate(theirs).Stage(), dynamicconfig.ModeOldShadowNew, nil)
		old.Charge(charged)
		p.SetMode(stage.Now(), dynamicconfig.ModeNew)
		got := 0
		for range 20 {
			if v, _ := p.Take(t.Context(), stage.Request{Now: stage.Now(), N: 1, Kind: stage.Final}); v.OK() {
				got++
			}
		}
		if want := max(10-charged, 0); got != want {
			t.Errorf("the old limiter had %d tokens, and the new one lets %d pass", 10-charged, got)
		}
	}
}

// Callers that wait for slots ask whatever decides after a change of mode. So all that are
// under way count there, if the mode before measured it.
func TestThoseWhoWaitForSlotsFollowTheMode(t *testing.T) {
	config := func(from, to string, mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
		r := dynamicconfig.Rule{
			Key: "k", Limit: 1, InFlight: true, Lease: 10 * time.Second, IdleAfter: time.Hour,
			Migration: &dynamicconfig.Migration{From: from, To: to, Mode: mode},
		}
		s, err := dynamicconfig.Config{Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{r}}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, next := range map[string]*dynamicconfig.Snapshot{
		"the new side answers": config("static", "fair-share", dynamicconfig.ModeNewShadowOld),
		"the sides swap":       config("fair-share", "static", dynamicconfig.ModeOldShadowNew),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := limiter.NewGroup(config("static", "fair-share", dynamicconfig.ModeOldShadowNew), 1, limiter.WithMigration(shadow.Migrator()))
				k := g.For("k")
				release, ok := k.TryAcquire(1)
				if !ok {
					t.Fatal("no slot")
				}
				done := make(chan func(), 1)
				go func() {
					release, err := k.Acquire(t.Context(), 1)
					if err != nil {
						t.Error(err)
					}
					done <- release
				}()
				synctest.Wait()
				g.Configure(next)
				synctest.Wait()
				release()
				release = <-done
				if _, ok := k.TryAcquire(1); ok {
					t.Error("two are under way, and the limit is 1")
				}
				release()
				if _, ok := k.TryAcquire(1); !ok {
					t.Error("a slot is not free although nobody holds it")
				}
			})
		})
	}
	t.Run("nothing is limited", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := limiter.NewGroup(config("static", "fair-share", dynamicconfig.ModeNew), 1, limiter.WithMigration(shadow.Migrator()))
			k := g.For("k")
			k.TryAcquire(1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			time.AfterFunc(time.Second, func() { g.Configure(config("static", "fair-share", dynamicconfig.ModeDisabled)) })
			if _, err := k.Acquire(ctx, 1); err != nil {
				t.Error(err)
			}
		})
	})
}
