// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
)

// Other packages cannot switch a limiter off by an assignment to a field of it, such as one that is embedded.
func TestOtherPackagesReplaceNoFieldOfALimiter(t *testing.T) {
	for _, of := range []reflect.Type{
		reflect.TypeFor[limiter.Limiter](), reflect.TypeFor[limiter.Bucket](), reflect.TypeFor[limiter.Group](),
		reflect.TypeFor[Limiter](), reflect.TypeFor[Pair](), reflect.TypeFor[SlotsPair](),
	} {
		for f := range of.Fields() {
			if f.IsExported() {
				t.Errorf("%v has the exported field %s", of, f.Name)
			}
		}
	}
}

func TestBetweenLimitersOfAnyKind(t *testing.T) {
	even := snapshot(t, dynamicconfig.Rule{Limit: 5, Algorithm: limiter.Even})
	kinds := map[string]func() Staged{
		"Bucket":   func() Staged { return limiter.NewBucket(5, 5) },
		"Group":    func() Staged { return limiter.NewGroup(even, 1).For("k") },
		"FromRate": func() Staged { return limiter.FromRate(rate.NewLimiter(5, 5)) },
		"shadow":   func() Staged { return New(limiter.NewBucket(5, 5), limiter.NewBucket(5, 5), newShadowOld) },
	}
	for from, makeOld := range kinds {
		for to, makeNew := range kinds {
			bubble(t, func(t *testing.T) {
				l, now, got := New(makeOld(), makeNew(), oldShadowNew), time.Now(), 0
				for range 8 {
					if l.Allow() {
						got++
					}
				}
				if c := l.Counts(); got != 5 || c != (stage.Divergence{Both: 5, Neither: 3}) || l.AllowN(now, -1) || l.Counts() != c {
					t.Errorf("%s to %s: %d allowed, %+v", from, to, got, c)
				}
				l.SetMode(onlyNew)
				if l.Allow() || l.Mode() != onlyNew {
					t.Errorf("%s to %s: the switch gave a token", from, to)
				}
				l.SetMode(disabled)
				if !l.Reserve().OK() || l.WaitN(t.Context(), 1e9) != nil {
					t.Errorf("%s to %s: disabled, and it limits", from, to)
				}
				l.SetMode(old)
				if l.Allow() {
					t.Errorf("%s to %s: the way back gave a token", from, to)
				}
				if r := l.Reserve(); !r.OK() || r.Delay() <= 0 || r.Delay() > 200*time.Millisecond {
					t.Errorf("%s to %s: a reservation of the next token: %v, %v", from, to, r.OK(), r.Delay())
				}
			})
		}
	}
}

// The reservation is for two tokens. The shadow takes what the primary refuses.
func TestCancelGivesBothTheirTokens(t *testing.T) {
	for _, tt := range []struct {
		name             string
		oldLeft, newLeft int // when it is made
		ok               bool
		old, new         float64 // when it is cancelled
		counts           stage.Divergence
	}{
		{"both have the tokens", 5, 5, true, 5, 5, stage.Divergence{Both: 2}},
		{"both lack them", 0, 0, true, 0, 0, stage.Divergence{Both: 2}},
		{"the shadow lacks them", 5, 1, true, 5, 1, stage.Divergence{OnlyOld: 2}},
		{"neither ever has them", 0, 1, false, 0, 1, stage.Divergence{Neither: 2}},
		{"only the shadow ever has them", 0, 3, false, 0, 1, stage.Divergence{OnlyNew: 2}},
	} {
		bubble(t, func(t *testing.T) {
			limit := map[bool]rate.Limit{true: 1}[tt.ok]
			o, n := limiter.NewBucket(limit, 5), limiter.NewBucket(limit, 5)
			o.Charge(5 - tt.oldLeft)
			n.Charge(5 - tt.newLeft)
			l := New(o, n, oldShadowNew)
			r := l.ReserveN(time.Now(), 2)
			r.Cancel()
			if r.OK() != tt.ok || !near(o.Tokens(), tt.old) || !near(n.Tokens(), tt.new) || l.Counts() != tt.counts {
				t.Errorf("%s: %v; left are %v and %v, %+v", tt.name, r.OK(), o.Tokens(), n.Tokens(), l.Counts())
			}
		})
	}
}

// Two tokens are asked for, and each bucket has one. The old one gets ten a
// second.
func TestWaits(t *testing.T) {
	for _, tt := range []struct {
		name             string
		newRate          rate.Limit
		deadline, cancel time.Duration // 0 for none
		takes            time.Duration
		err              error
		oldLeft, newLeft float64 // at the end
		counts           stage.Divergence
	}{
		{"both as fast", 10, 0, 0, 100 * time.Millisecond, nil, 0, 0, stage.Divergence{Both: 2}},
		{"the shadow is faster", 20, 0, 0, 100 * time.Millisecond, nil, 0, 1, stage.Divergence{Both: 2}},
		{"the shadow is slower", 5, 0, 0, 100 * time.Millisecond, nil, 0, 1.5, stage.Divergence{OnlyOld: 2}},
		{"both are too slow", 5, 50 * time.Millisecond, 0, 0, context.DeadlineExceeded, 1, 1, stage.Divergence{Neither: 2}},
		{"only the old one is too slow", 20, 60 * time.Millisecond, 0, 0, context.DeadlineExceeded, 1, -1, stage.Divergence{OnlyNew: 2}},
		{"cancelled", 10, 0, 50 * time.Millisecond, 50 * time.Millisecond, context.Canceled, 1.5, 1.5, stage.Divergence{Both: 2}},
		{"cancelled before", 10, 0, -1, 0, context.Canceled, 1, 1, stage.Divergence{}},
	} {
		bubble(t, func(t *testing.T) {
			o, n := limiter.NewBucket(10, 2), limiter.NewBucket(tt.newRate, 2)
			o.Charge(1)
			n.Charge(1)
			l := New(o, n, oldShadowNew)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tt.deadline > 0 {
				ctx, cancel = context.WithTimeout(ctx, tt.deadline)
				defer cancel()
			}
			switch {
			case tt.cancel > 0:
				defer time.AfterFunc(tt.cancel, cancel).Stop()
			case tt.cancel < 0:
				cancel()
			}
			began := time.Now()
			err := l.WaitN(ctx, 2)
			if took := time.Since(began); took != tt.takes || !errors.Is(err, tt.err) {
				t.Errorf("%s: took %v, %v; want %v, %v", tt.name, took, err, tt.takes, tt.err)
			}
			if o, n := o.Tokens(), n.Tokens(); !near(o, tt.oldLeft) || !near(n, tt.newLeft) || l.Counts() != tt.counts {
				t.Errorf("%s: left are %v and %v, %+v; want %v, %v, %+v", tt.name, o, n, l.Counts(), tt.oldLeft, tt.newLeft, tt.counts)
			}
			if err := l.WaitN(t.Context(), 3); !errors.Is(err, limiter.ErrNever) {
				t.Errorf("%s: a wait for more than the burst: %v", tt.name, err)
			}
		})
	}
}

// A wait ends as soon as nothing limits the key any more: because of a bypass where the
// tokens came from, of a mode that lets everything through, or of one whose limiter does.
func TestAWaitEndsWhenNothingLimitsAnyMore(t *testing.T) {
	config := func(bypass bool) *dynamicconfig.Snapshot {
		c := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{Key: "k", Limit: 1, Burst: 1, Algorithm: "even"}}}
		if bypass {
			c.Overrides = []dynamicconfig.Override{{Key: "k", Bypass: true, Until: time.Now().Add(time.Hour), Author: "ada", Reason: "a test"}}
		}
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s.At(time.Now())
	}
	for name, opens := range map[string]func(o, n *limiter.Group, l *Limiter){
		"a bypass":                 func(o, _ *limiter.Group, _ *Limiter) { o.Configure(config(true)) },
		"a mode":                   func(_, _ *limiter.Group, l *Limiter) { l.SetMode(disabled) },
		"a mode to a bypass":       func(_, n *limiter.Group, l *Limiter) { n.Configure(config(true)); l.SetMode(onlyNew) },
		"a mode before the bypass": func(_, n *limiter.Group, l *Limiter) { l.SetMode(onlyNew); n.Configure(config(true)) },
		"a config before a bypass": func(o, _ *limiter.Group, _ *Limiter) { o.Configure(config(false)); o.Configure(config(true)) },
		"a bypass that is replaced": func(o, _ *limiter.Group, _ *Limiter) {
			o.Configure(config(true))
			synctest.Wait()
			o.Configure(config(false))
		},
	} {
		bubble(t, func(t *testing.T) {
			o, n := limiter.NewGroup(config(false), 1), limiter.NewGroup(config(false), 1)
			inner := New(o.For("k"), n.For("k"), old)
			l := New(inner, limiter.NewBucket(1, 1), old) // one that is within another
			l.AllowN(time.Now(), 1)
			began := time.Now()
			var waits sync.WaitGroup
			waits.Go(func() {
				if err := l.Wait(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			waits.Go(func() {
				if err := l.Take(t.Context(), 1, -1).Wait(t.Context()); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			})
			r := l.Reserve()
			synctest.Wait()
			if r.Delay() == 0 {
				t.Errorf("%s: no delay before", name)
			}
			opens(o, n, inner)
			waits.Wait()
			if open, _ := l.Stage().Open(); open && r.Delay() != 0 || time.Since(began) > 0 {
				t.Errorf("%s: the wait took %v, and the delay is %v", name, time.Since(began), r.Delay())
			}
		})
	}
}

// A wait goes on while only the limiter that is measured lets everything through.
func TestAWaitGoesOnWhileAnotherLimits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		l := New(limiter.NewBucket(1, 1), limiter.NewBucket(1, 1), old)
		l.AllowN(time.Now(), 1)
		began, done := time.Now(), make(chan error, 1)
		go func() { done <- l.Wait(t.Context()) }()
		synctest.Wait()
		for _, mode := range []dynamicconfig.Mode{oldShadowNew, newShadowOld, onlyNew, old} {
			l.SetMode(mode)
			synctest.Wait()
		}
		if err := <-done; err != nil || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// The mode disabled between two others gives no second burst either.
func TestASwitchThroughDisabledGivesNoSecondBurst(t *testing.T) {
	for _, from := range modes[1:] {
		for _, to := range modes[1:] {
			l := New(limiter.NewBucket(1e-6, 5), limiter.NewBucket(1e-6, 8), from)
			take := func() (got int) {
				for range 10 {
					if l.Allow() {
						got++
					}
				}
				return got
			}
			take()
			for _, mode := range []dynamicconfig.Mode{disabled, disabled, to} {
				l.SetMode(mode)
			}
			if got := take(); got > 0 {
				t.Errorf("%v, then %v: %d tokens more", from, to, got)
			}
		}
	}
}
