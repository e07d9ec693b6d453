// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

// slow is a Remote that takes a second to answer, from one bucket.
type slow struct {
	bucket *limiter.Bucket
	err    error
}

func (s *slow) Take(_ context.Context, t limiter.Take) (limiter.Taken, error) {
	time.Sleep(time.Second)
	switch now := limiter.Now(); {
	case s.err != nil:
		return limiter.Taken{}, s.err
	case t.Charge:
		s.bucket.ChargeAt(now, int(t.N))
		return limiter.Taken{OK: true}, nil
	case t.N < 0:
		s.bucket.CapAt(now, -1000) // nobody gives back by chance
		return limiter.Taken{OK: true}, nil
	default:
		r := s.bucket.ReserveAt(now, int(t.N), t.Longest)
		if !r.OK() {
			return limiter.Taken{}, nil
		}
		return limiter.Taken{OK: true, Wait: r.DelayFrom(now.Time())}, nil
	}
}

// besideSlow is a Group whose key k is limited to 10 here, and shadowed by
// 5 elsewhere.
func besideSlow(t *testing.T, mode dynamicconfig.Mode, remote *slow) (*limiter.Keyed, func() Counts) {
	t.Helper()
	s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{
		Key: "k", Limit: 10, Migration: &dynamicconfig.Migration{From: "even", To: "exact", Mode: mode},
	}}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var made *Limiter
	g := limiter.NewGroup(s, 1, limiter.WithRemote("exact", remote), limiter.WithMigration(func(old, new limiter.Stepper, mode dynamicconfig.Mode) limiter.Migrator {
		made = FromSteps(old, new, mode)
		return made
	}))
	return g.For("k"), func() Counts { return made.Counts() }
}

func TestNobodyWaitsForAShadowElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &slow{bucket: limiter.NewBucket(rate.Limit(1), 5)}
		k, counts := besideSlow(t, oldShadowNew, remote)
		began := time.Now()
		for range 4 {
			k.Allow()
		}
		if d := k.Decide(t.Context(), 1, 0); !d.OK || d.By != "even" {
			t.Errorf("decided %+v", d)
		}
		for range 3 {
			k.Reserve()
		}
		if c := counts(); time.Since(began) > 0 || c != (Counts{}) {
			t.Errorf("after %v: %+v", time.Since(began), c)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c := counts(); c.Both < 5 || c.Both+c.OnlyOld != 8 {
			t.Errorf("of 8: %+v", c)
		}
		if err := k.WaitN(t.Context(), 3); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if c := counts(); c.OnlyOld+c.Both != 11 || c.OnlyOld < 3 {
			t.Errorf("a wait that the shadow had waited longer for: %+v", c)
		}
		if tokens := remote.bucket.Tokens(); tokens > -900 {
			t.Errorf("what the shadow waited longer for is not given back: %v tokens", tokens)
		}
	})
}

func TestWhatDidNotHappenIsGivenBackElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &slow{bucket: limiter.NewBucket(rate.Limit(1), 5)}
		k, _ := besideSlow(t, oldShadowNew, remote)
		r := k.Try()
		if !r.OK() || remote.bucket.Tokens() != 5 {
			t.Fatal("it waits")
		}
		r.Used(false) // before the answer is there
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if tokens := remote.bucket.Tokens(); tokens > -900 {
			t.Errorf("not given back: %v tokens", tokens)
		}
	})
}

// What answers is asked at once, and falls back.
func TestAPrimaryElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		remote := &slow{bucket: limiter.NewBucket(rate.Limit(1), 5)}
		k, counts := besideSlow(t, newShadowOld, remote)
		if d := k.Decide(t.Context(), 5, 0); !d.OK || d.By != "exact" {
			t.Errorf("decided %+v", d)
		}
		if d := k.Decide(t.Context(), 5, 0); d.OK || d.By != "exact" {
			t.Errorf("decided %+v", d)
		}
		if c := counts(); c != (Counts{Both: 5, OnlyOld: 5}) {
			t.Errorf("%+v", c)
		}
		remote.err = errors.New("away")
		if d := k.Decide(t.Context(), 5, 0); !d.OK || d.By != "even" {
			t.Errorf("decided %+v", d)
		}
		synctest.Wait()
	})
}
