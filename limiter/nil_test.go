// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// A Group whose collaborators are nil, or whose numbers make no sense, works as one without
// them.
func TestAGroupWorksWithoutWhatIsNil(t *testing.T) {
	for name, option := range map[string]Option{
		"option": nil, "logger": WithLogger(nil), "scope": WithScope(nil), "remote": WithRemote("r", nil),
		"listener": WithListener(nil), "migration": WithMigration(stage.Migrator{}), "algorithm": WithAlgorithm("", dynamicconfig.Traits{}),
	} {
		t.Run(name, func(t *testing.T) {
			rules := []dynamicconfig.Rule{alone(10, 10), {Key: "r", Limit: 10, Burst: 10, Algorithm: "r"}, {
				Key: "m", Limit: 10, Burst: 10, Migration: &dynamicconfig.Migration{From: Even, To: "elastic", Mode: dynamicconfig.ModeOldShadowNew},
			}}
			var log bytes.Buffer
			g := NewGroup(snapshot(t, rules...), -1, WithLogger(slog.New(slog.NewTextHandler(&log, nil))), option)
			for _, key := range []string{"k", "r", "m"} {
				if l := g.For(key); !l.AllowN(second.Time(), 10) || l.AllowN(second.Time(), 1) {
					t.Errorf("%s has not 10 tokens", key)
				}
			}
			g.For("nobody").Allow() // which is logged
			g.Configure(nil)
			if g.For("k").Rule() == nil {
				t.Error("the rules are gone")
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			g.Run(ctx, updater(nil))
			if strings.Contains(log.String(), "panic") {
				t.Error(log.String())
			}
		})
	}
	if g := NewGroup(nil, 1); !g.For("k").Allow() || g.For("k").Rule() != nil {
		t.Error("without rules, a key is limited")
	}
}

// A Limiter that has nothing to take tokens from refuses everything, and says so.
func TestALimiterOfNothingRefusesEverything(t *testing.T) {
	if ok, one := AllowAll(t.Context(), Cost{}), (Cost{N: 1}); ok || AllowAll(t.Context(), one) {
		t.Error("a Cost without a Limiter is allowed")
	} else if _, refused := TakeAll(t.Context(), 0, one); refused.Reason != InvalidKey || refused.Cost.Limiter.Key() != "" {
		t.Errorf("a Cost without a Limiter is refused by %+v", refused)
	}
	for name, l := range map[string]*Limiter{
		"zero": new(Limiter), "rate": FromRate(nil), "stage": FromStage(nil),
		"no rate": &NewBucket(rate.Limit(math.NaN()), math.MinInt).limiter, "negative": &NewBucket(-1, -1).limiter,
	} {
		t.Run(name, func(t *testing.T) {
			if l.Allow() || l.Reserve().OK() || l.Wait(t.Context()) == nil || l.Take(t.Context(), 1, -1).OK() || AllowAll(t.Context(), Cost{l, 1}) {
				t.Error("it allows an event")
			}
			if _, ok := l.TryAcquire(1); ok {
				t.Error("it gives a slot")
			}
			l.Charge(1)
			l.SetDemand(math.NaN())
			if l.Limit() > 0 || l.Burst() > 0 || l.Tokens() > 0 {
				t.Errorf("limit %v, burst %v, tokens %v", l.Limit(), l.Burst(), l.Tokens())
			}
			l.Stage().Cap(second, -1)
			l.Stage().Open()
		})
	}
}

func TestAReservationOrAnEstimateThatNobodyMadeIsNotOK(t *testing.T) {
	r, e := new(Reservation), new(Estimate)
	if r.OK() || r.Delay() != rate.InfDuration || e.OK() || e.Decision().OK {
		t.Errorf("the zero Reservation is OK: %v, the zero Estimate: %v", r.OK(), e.OK())
	}
	if err := e.Wait(t.Context()); !errors.Is(err, ErrNever) {
		t.Errorf("a wait for the zero Estimate: %v", err)
	}
	r.Cancel()
	e.Settle(5)
	e.Cancel()
}
