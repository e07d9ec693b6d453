// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

func TestAHostThatLeavesGivesBackWhatItHolds(t *testing.T) {
	for name, tt := range map[string]struct {
		rule    dynamicconfig.Rule
		options []Option
	}{
		"leased":    {weighted(10), []Option{WithAlgorithm("request-weighted", dynamicconfig.Traits{Wants: true})}},
		"early":     {weighted(10), []Option{WithAlgorithm("request-weighted", dynamicconfig.Traits{Early: true}), WithSeed(1)}},
		"in flight": {inFlightRule(10), nil},
	} {
		bubble(t, func(t *testing.T) {
			tt.rule.Fallback = dynamicconfig.FallbackClosed
			g := NewGroup(snapshot(t, tt.rule), 1, tt.options...)
			k := g.For("k")
			var last []usage.Report
			owner := updater(func(_ context.Context, u *usage.Report, done func(usage.Part, *usage.Grants, error)) {
				if err := u.Check(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				last = append(last, *u)
				done(usage.Part{Owner: "owner"}, nil, errors.New("too late to answer"))
			})
			k.Tokens()
			if g.Leave(t.Context(), owner); len(last) != 0 {
				t.Errorf("%s: it holds nothing, and reports %+v", name, last)
			}
			time.Sleep(time.Second)
			answer(t, g, stage.Now(), 0.5, 5, usage.FloorNone, time.Minute)
			time.Sleep(time.Second)
			if g.Leave(t.Context(), owner); len(last) != 1 || last[0].Keys[0] != "k" || last[0].Weight[0] != 0 || last[0].Wants[0] != 0 {
				t.Fatalf("%s: reports %+v", name, last)
			}
			if _, ok := k.TryAcquire(1); ok {
				t.Errorf("%s: uses what it gave back", name)
			}
			if g.Leave(t.Context(), owner); len(last) != 1 {
				t.Errorf("%s: gives it back twice", name)
			}
		})
	}
}

// A host that has left reports no more, so no lease of it would end: what nobody takes back
// it does not use for ever either.
func TestAHostThatHasLeftUsesNoGrant(t *testing.T) {
	for _, floor := range []usage.Floor{usage.FloorNone, usage.FloorEven, usage.FloorDrop} {
		bubble(t, func(t *testing.T) {
			g := NewGroup(snapshot(t, weighted(100)), 10)
			k := g.For("k")
			k.Allow()
			time.Sleep(time.Second)
			answer(t, g, stage.Now(), 0.9, 90, floor, time.Minute)
			g.Leave(t.Context(), updater(func(_ context.Context, u *usage.Report, _ func(usage.Part, *usage.Grants, error)) {
				t.Errorf("floor %v: reports %+v", floor, u)
			}))
			allowed := 0
			for range 100 {
				time.Sleep(time.Minute)
				for range 100 {
					if k.Allow() {
						allowed++
					}
				}
			}
			if allowed > 100*10 { // an even part of the burst, each minute
				t.Errorf("floor %v: allowed %d", floor, allowed)
			}
			if s := only(t, g, stage.Now(), "k"); !s.Fallback {
				t.Errorf("floor %v: %+v", floor, s)
			}
		})
	}
}
