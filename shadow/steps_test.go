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

// A reservation of two tokens, and what becomes of it. The primary has 5
// tokens or none, and so has the shadow.
func TestWhatBecomesOfReservations(t *testing.T) {
	const has = 5
	for _, tt := range []struct {
		name                    string
		primaryHas, shadowHas   int
		do                      func(r limiter.Reservation)
		primaryLeft, shadowLeft float64
		counts                  Counts // in the mode old-shadow-new
	}{
		{"used", has, has, func(r limiter.Reservation) { r.Used(true) }, 3, 3, Counts{Both: 2}},
		{"nobody says", has, has, func(limiter.Reservation) {}, 3, 3, Counts{Both: 2}},
		{"not used", has, has, func(r limiter.Reservation) { r.Used(false) }, 5, 5, Counts{Both: 2}},
		{"primary refused, not used", 0, has, func(r limiter.Reservation) { r.Used(false) }, 0, 3, Counts{OnlyNew: 2}},
		{"primary refused, nobody says", 0, has, func(limiter.Reservation) {}, 0, 3, Counts{OnlyNew: 2}},
		{"primary refused, cancelled", 0, has, func(r limiter.Reservation) { r.Cancel() }, 0, 3, Counts{OnlyNew: 2}},
		{"shadow refused, used", has, 0, func(r limiter.Reservation) { r.Used(true) }, 3, 0, Counts{OnlyOld: 2}},
		{"shadow refused, not used", has, 0, func(r limiter.Reservation) { r.Used(false) }, 5, 0, Counts{OnlyOld: 2}},
		{"both refused", 0, 0, func(r limiter.Reservation) { r.Used(false) }, 0, 0, Counts{Neither: 2}},
	} {
		for _, mode := range []dynamicconfig.Mode{oldShadowNew, newShadowOld} {
			primary, shadow := bucket(0, tt.primaryHas), bucket(0, tt.shadowHas)
			l, counts := FromSteps(primary, shadow, mode), tt.counts
			if mode == newShadowOld {
				l = FromSteps(shadow, primary, mode)
				counts.OnlyOld, counts.OnlyNew = counts.OnlyNew, counts.OnlyOld
			}
			r := l.TryN(limiter.Now().Time(), 2)
			if r.OK() != (tt.primaryHas > 0) {
				t.Errorf("%s: OK is %v", tt.name, r.OK())
			}
			if want := map[bool]time.Duration{true: 0, false: rate.InfDuration}[r.OK()]; r.Delay() != want {
				t.Errorf("%s: delay %v", tt.name, r.Delay())
			}
			tt.do(r)
			if p, s := primary.tokens(0), shadow.tokens(0); !near(p, tt.primaryLeft) || !near(s, tt.shadowLeft) {
				t.Errorf("%s, %v: left are %v and %v, want %v and %v", tt.name, mode, p, s, tt.primaryLeft, tt.shadowLeft)
			}
			if c := l.Counts(); c != counts {
				t.Errorf("%s, %v: %+v, want %+v", tt.name, mode, c, counts)
			}
		}
	}
}

func TestCancelGivesBothTheirTokens(t *testing.T) {
	o, n := limiter.NewBucket(1, 5), limiter.NewBucket(2, 5)
	l := New(o, n, oldShadowNew)
	if !l.AllowAt(0, 5) {
		t.Fatal("the burst is refused")
	}
	r := l.ReserveAt(0, 4, time.Hour)
	if at := limiter.Instant(0).Time(); r.DelayFrom(at) != 4*time.Second {
		t.Errorf("delay %v, want the primary's 4s", r.DelayFrom(at))
	}
	r.CancelAt(second.Time()) // the new one's delay is 2s: both are to come
	if o.TokensAt(second.Time()) != 1 || n.TokensAt(second.Time()) != 2 {
		t.Errorf("tokens %v and %v, want 1 and 2", o.TokensAt(second.Time()), n.TokensAt(second.Time()))
	}
}

// What the primary refused did not happen, so there is nothing to cancel: the
// shadow goes on as if it had been used.
func TestWhatThePrimaryRefusedStaysWithTheShadow(t *testing.T) {
	n := limiter.NewBucket(1, 1)
	l := New(limiter.NewBucket(0, 0), n, oldShadowNew)
	l.AllowAt(0, 1)
	r := l.ReserveAt(0, 1, time.Hour)
	r.CancelAt(limiter.Instant(0).Time())
	if left := n.TokensAt(limiter.Instant(0).Time()); r.OK() || left != -1 {
		t.Errorf("OK is %v and the shadow has %v tokens, want -1", r.OK(), left)
	}
}

func TestDisabledReservesAndWaitsForEver(t *testing.T) {
	o, n := bucket(0, 0), bucket(0, 0)
	l := FromSteps(o, n, disabled)
	if r := l.ReserveN(time.Now(), 1e9); !r.OK() || r.Delay() != 0 {
		t.Error("disabled, and a reservation is refused")
	}
	if err := l.WaitN(t.Context(), 1e9); err != nil {
		t.Errorf("disabled, and a wait fails: %v", err)
	}
	l.Charge(5)
	if o.asked+n.asked+o.charged+n.charged != 0 || l.Counts() != (Counts{}) {
		t.Errorf("disabled counts: %+v %+v %+v", o, n, l.Counts())
	}
}

// Ten a second, and the wait is for the second of two tokens.
func TestWaits(t *testing.T) {
	for _, tt := range []struct {
		name             string
		oldRate, newRate rate.Limit
		deadline, cancel time.Duration // 0 for none
		takes            time.Duration
		err              error
		oldLeft, newLeft float64 // at the end
		counts           Counts
		rejected         int // by the shadow, for its usage to show
	}{
		{"both at once", 10, 10, 0, 0, 100 * time.Millisecond, nil, 0, 0, Counts{Both: 1}, 0},
		{"the shadow is faster", 10, 20, 0, 0, 100 * time.Millisecond, nil, 0, 1, Counts{Both: 1}, 0},
		{"the shadow is slower", 10, 5, 0, 0, 100 * time.Millisecond, nil, 0, 0.5, Counts{OnlyOld: 1}, 1},
		{"both are too slow", 1, 2, 100 * time.Millisecond, 0, 0, context.DeadlineExceeded, 0, 0, Counts{Neither: 1}, 1},
		{"the shadow is too slow", 10, 5, 150 * time.Millisecond, 0, 100 * time.Millisecond, nil, 0, 0.5, Counts{OnlyOld: 1}, 1},
		{"cancelled before either", 10, 5, 0, 50 * time.Millisecond, 50 * time.Millisecond, context.Canceled, 0.5, 0.25, Counts{Neither: 1}, 0},
		{"cancelled after the shadow", 10, 20, 0, 75 * time.Millisecond, 75 * time.Millisecond, context.Canceled, 0.75, 0.5, Counts{OnlyNew: 1}, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			o, n := bucket(tt.oldRate, 1), bucket(tt.newRate, 1)
			l := FromSteps(o, n, oldShadowNew)
			o.Stepper.AllowAt(limiter.Now(), 1)
			n.Stepper.AllowAt(limiter.Now(), 1)
			ctx := t.Context()
			if tt.deadline > 0 {
				c, cancel := context.WithTimeout(ctx, tt.deadline)
				defer cancel()
				ctx = c
			}
			if tt.cancel > 0 {
				c, cancel := context.WithCancel(ctx)
				defer time.AfterFunc(tt.cancel, cancel).Stop()
				ctx = c
			}
			start := time.Now()
			err := l.Wait(ctx)
			if took := time.Since(start); took != tt.takes || !errors.Is(err, tt.err) {
				t.Errorf("%s: took %v, %v; want %v, %v", tt.name, took, err, tt.takes, tt.err)
			}
			if o, n := o.tokens(limiter.Now()), n.tokens(limiter.Now()); !near(o, tt.oldLeft) || !near(n, tt.newLeft) {
				t.Errorf("%s: left are %v and %v, want %v and %v", tt.name, o, n, tt.oldLeft, tt.newLeft)
			}
			if n.rejected != tt.rejected {
				t.Errorf("%s: the shadow rejected %d, want %d", tt.name, n.rejected, tt.rejected)
			}
			if c := l.Counts(); c != tt.counts {
				t.Errorf("%s: %+v, want %+v", tt.name, c, tt.counts)
			}
		})
	}
}

func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }

func TestAWaitOfSomebodyWhoHasLeftAsksNobody(t *testing.T) {
	o, n := bucket(10, 5), bucket(10, 5)
	l := FromSteps(o, n, oldShadowNew)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if o.asked+n.asked != 0 || l.Counts() != (Counts{}) {
		t.Errorf("asked %d and %d, %+v", o.asked, n.asked, l.Counts())
	}
}

func TestWaitsForTooMuchFailAtOnce(t *testing.T) {
	for _, mode := range []dynamicconfig.Mode{old, oldShadowNew} {
		l := New(limiter.NewBucket(10, 5), limiter.NewBucket(10, 7), mode)
		if err := l.WaitN(t.Context(), 6); !errors.Is(err, limiter.ErrNever) {
			t.Errorf("%v: the error is %v", mode, err)
		}
	}
}

func TestBetweenLimitersOfAnyKind(t *testing.T) {
	snapshot, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{Key: "k", Limit: 5, Algorithm: limiter.Even}}}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func() limiter.Limiter{
		"Bucket":  func() limiter.Limiter { return limiter.NewBucket(5, 5) },
		"Keyed":   func() limiter.Limiter { return limiter.NewGroup(snapshot, 1).For("k") },
		"foreign": func() limiter.Limiter { return newForeign(5, 5) },
		"shadow": func() limiter.Limiter {
			return New(limiter.NewBucket(5, 5), limiter.NewBucket(5, 5), newShadowOld)
		},
	}
	for from, makeOld := range kinds {
		for to, makeNew := range kinds {
			l := New(makeOld(), makeNew(), oldShadowNew)
			now := time.Now()
			got := 0
			for range 8 {
				if l.AllowN(now, 1) {
					got++
				}
			}
			if c := l.Counts(); got != 5 || c != (Counts{Both: 5, Neither: 3}) {
				t.Errorf("%s to %s: %d allowed, %+v", from, to, got, c)
			}
			l.SetMode(limiter.At(now), onlyNew)
			if l.AllowN(now, 1) {
				t.Errorf("%s to %s: the switch gave a token", from, to)
			}
			l.SetMode(limiter.At(now), disabled)
			l.SetMode(limiter.At(now), old)
			if l.AllowN(now, 1) {
				t.Errorf("%s to %s: the way back gave a token", from, to)
			}
			if r := l.ReserveN(now, 1); !r.OK() || r.DelayFrom(now) <= 0 || r.DelayFrom(now) > 200*time.Millisecond {
				t.Errorf("%s to %s: a reservation of the next token: %v, %v", from, to, r.OK(), r.DelayFrom(now))
			}
		}
	}
}
