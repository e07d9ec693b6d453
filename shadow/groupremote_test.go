// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
)

// owner is a Remote that answers from one bucket.
type owner struct {
	*bucket
	delay time.Duration // of each answer

	lock           sync.Mutex // protects following fields
	err            error
	asked, charged float64
}

func (o *owner) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	time.Sleep(o.delay)
	o.lock.Lock()
	defer o.lock.Unlock()

	if o.err != nil {
		return stage.Outcome{}, o.err
	}
	r := stage.Request{Now: stage.Now(), N: int64(op.N), Longest: op.Longest, Kind: stage.Final}
	switch op.Kind {
	case stage.ChargeTokens:
		o.charged += op.N
		r.Kind = stage.Charge
	case stage.ReturnTokens:
		r.Kind, r.N = stage.Charge, -r.N
	default:
		o.asked += op.N
	}
	v, _ := o.Take(context.Background(), r)
	return stage.Outcome{OK: v.OK(), Wait: v.Wait, Left: o.has(r.Now)}, nil
}

// take returns what was asked for and charged since the last call.
func (o *owner) take() (asked, charged float64) {
	o.lock.Lock()
	defer o.lock.Unlock()

	asked, charged = o.asked, o.charged
	o.asked, o.charged = 0, 0
	return asked, charged
}

func (o *owner) fail(err error) {
	o.lock.Lock()
	defer o.lock.Unlock()

	o.err = err
}

// besideOwner is a Group whose key k goes from 10/s here to a bucket of o.
func besideOwner(t testing.TB, mode dynamicconfig.Mode, o *owner) (g *limiter.Group, configure func(dynamicconfig.Mode)) {
	t.Helper()
	config := func(mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
		return snapshot(t, dynamicconfig.Rule{Limit: 10, Burst: 100, Migration: &dynamicconfig.Migration{From: "even", To: "exact", Mode: mode}})
	}
	g = newGroup(config(mode), 1, limiter.WithRemote("exact", o))
	return g, func(mode dynamicconfig.Mode) { g.Configure(config(mode)) }
}

// divergence is what g says about k.
func divergence(t testing.TB, g *limiter.Group) stage.Divergence {
	t.Helper()
	st, ok := g.Inspect("k")
	if !ok {
		t.Fatal("the key is not live")
	}
	return st.Divergence
}

// bubble runs f on virtual time. Its clock begins in the year 2000, and f when
// Instants are no longer negative, as in a real process.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(stage.Now().Sub(0).Abs())
		f(t)
	})
}

func TestNobodyWaitsForAnOwnerThatIsOnlyMeasured(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := &owner{bucket: newBucket(t, 0, 5), delay: time.Second}
		g, _ := besideOwner(t, oldShadowNew, o)
		k, began := g.For("k"), time.Now()
		if !k.Allow() || !k.AllowN(time.Now(), 2) || !k.Reserve().OK() || k.Wait(t.Context()) != nil {
			t.Error("the old limiter refuses")
		}
		if d := k.Decide(t.Context(), 3, 0); !d.OK || d.By != "even" {
			t.Errorf("decided %+v", d)
		}
		if d := divergence(t, g); time.Since(began) > 0 || d != (stage.Divergence{}) {
			t.Errorf("after %v: %+v", time.Since(began), d)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if d := divergence(t, g); d.Both+d.OnlyOld != 8 || d.Both < 3 || d.Both > 5 {
			t.Errorf("%+v", d)
		}
	})
}

func TestWhatDidNotHappenGoesBackToTheOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := &owner{bucket: newBucket(t, 0, 5), delay: time.Second}
		g, _ := besideOwner(t, oldShadowNew, o)
		e := g.For("k").Take(t.Context(), 4, 0)
		if !e.OK() || o.has(stage.Now()) != 5 {
			t.Fatal("the caller waits")
		}
		e.Settle(1) // before the owner answers
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if left := o.has(stage.Now()); left != 4 {
			t.Errorf("%v tokens are left, want 4", left)
		}
	})
}

// An owner that decides is asked at once. When it does not answer, the fallback
// decides.
func TestAnOwnerThatDecidesIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := &owner{bucket: newBucket(t, 0, 5), delay: time.Second}
		g, _ := besideOwner(t, newShadowOld, o)
		k, began := g.For("k"), time.Now()
		if d := k.Decide(t.Context(), 5, 0); !d.OK || d.By != "exact" {
			t.Errorf("decided %+v", d)
		}
		if d := k.Decide(t.Context(), 5, 0); d.OK || d.By != "exact" || time.Since(began) != 2*time.Second {
			t.Errorf("decided %+v after %v", d, time.Since(began))
		}
		if d := divergence(t, g); d != (stage.Divergence{Both: 5, OnlyOld: 5}) {
			t.Errorf("%+v", d)
		}
		o.fail(errors.New("away"))
		if d := k.Decide(t.Context(), 5, 0); !d.OK || d.By != "even" {
			t.Errorf("decided %+v", d)
		}
		o.fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
	})
}

// An owner that begins to be asked is charged with what it missed, and only
// with that.
func TestAnOwnerIsChargedWithWhatItMissed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := &owner{bucket: newBucket(t, rate.Limit(1e9), 1e6)}
		g, configure := besideOwner(t, old, o)
		k := g.For("k")
		for i, step := range []struct {
			after          time.Duration
			mode           dynamicconfig.Mode
			asked, charged float64 // before the change of mode, and by it
		}{
			{0, oldShadowNew, 0, 6},
			{0, newShadowOld, 6, 0},
			{0, onlyNew, 6, 0},
			{time.Second, old, 6, 0},
			{time.Second, onlyNew, 0, 4}, // what the old part lacks after a second, and the owner does not
			{time.Hour, old, 6, 0},
			{12 * time.Second, onlyNew, 0, 0}, // longer ago than 10 s
			{0, disabled, 6, 0},
			{time.Hour, onlyNew, 0, 0}, // nothing was limited
		} {
			k.Allow()
			k.Decide(t.Context(), 1, 0)
			k.Reserve()
			k.Charge(1)
			if err := k.WaitN(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			time.Sleep(step.after)
			synctest.Wait()
			asked, charged := o.take() // Charge is a charge there too
			configure(step.mode)
			synctest.Wait()
			if _, missed := o.take(); asked+charged != step.asked || missed != step.charged {
				t.Errorf("step %d, to %v: asked for %v, and charged %v; want %v and %v", i, step.mode, asked+charged, missed, step.asked, step.charged)
			}
		}
	})
}

// An owner that begins to answer is not charged with tokens that callers gave back before.
func TestAnOwnerIsNotChargedWithWhatWasGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		o := &owner{bucket: newBucket(t, 10, 100)}
		g, configure := besideOwner(t, old, o)
		for range 10 {
			g.For("k").Take(t.Context(), 80, 0).Settle(1)
		}
		configure(onlyNew)
		synctest.Wait()
		if _, charged := o.take(); charged != 10 {
			t.Errorf("10 are used, and %v charged", charged)
		}
	})
}

// No jump between this host and the owner, and no mode between them, gives a
// second burst, and none costs tokens.
func TestAGroupMigratesToAnOwnerWithoutASecondBurst(t *testing.T) {
	for _, path := range [][]dynamicconfig.Mode{
		{onlyNew, old, onlyNew},
		{oldShadowNew, newShadowOld, onlyNew, newShadowOld, oldShadowNew, old},
	} {
		bubble(t, func(t *testing.T) {
			g, configure := besideOwner(t, old, &owner{bucket: newBucket(t, 10, 100)})
			k, allowed := g.For("k"), 0
			for _, mode := range append([]dynamicconfig.Mode{old}, path...) {
				configure(mode)
				synctest.Wait()
				for range 15 {
					if k.Allow() {
						allowed++
					}
				}
				synctest.Wait()
			}
			for range 200 {
				if k.Allow() {
					allowed++
				}
			}
			if allowed != 100 {
				t.Errorf("%v: allowed %d at once of the burst of 100", path, allowed)
			}
		})
	}
}
