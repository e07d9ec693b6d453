// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// told is an Updater that notes what it is told, and answers nothing.
type told struct{ usage []*rpc.Usage }

func (u *told) Update(_ context.Context, usage *rpc.Usage, _ time.Duration, done func(rpc.Part, *rpc.Grants, error)) {
	u.usage = append(u.usage, usage)
	done(rpc.Part{Owner: "owner"}, nil, errors.New("too late to answer"))
}

func TestWhoLeavesGivesBackWhatItHolds(t *testing.T) {
	for name, tt := range map[string]struct {
		rule    dynamicconfig.Rule
		options []Option
	}{
		"leased":    {weighted(10), []Option{WithWants("request-weighted")}},
		"eager":     {weighted(10), []Option{WithEager("request-weighted"), WithSeed(1)}},
		"in flight": {inFlightRule(10), nil},
	} {
		tt.rule.Fallback = dynamicconfig.FallbackClosed
		g := NewGroup(snapshot(t, tt.rule), 1, tt.options...)
		k := g.For("k")
		now := Now()
		k.Level(now)
		answer(t, g, now+second, 0.5, 5, rpc.FloorNone, time.Minute)

		batches := g.leave(now + 2*second)
		if len(batches) != 1 {
			t.Fatalf("%s: %d reports", name, len(batches))
		}
		u := &batches[0].Usage
		if err := u.Check(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if u.Keys[0] != "k" || u.Weight[0] != 0 || u.Wants[0] != 0 {
			t.Errorf("%s: has %v of %s and wants %v", name, u.Weight, u.Keys, u.Wants)
		}
		if k.AllowAt(now+3*second, 1) {
			t.Errorf("%s: uses what it gave back", name)
		}
		if again := g.leave(now + 4*second); len(again) != 0 {
			t.Errorf("%s: gives it back twice", name)
		}
	}
}

func TestLeaveTellsTheOwnersAndWaitsForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup(snapshot(t, weighted(10)), 1, WithWants("request-weighted"))
		updater := &told{}
		g.For("k").Level(Now())
		if g.Leave(t.Context(), updater); len(updater.usage) != 0 {
			t.Errorf("it holds nothing, and tells %+v", updater.usage)
		}
		time.Sleep(time.Second)
		answer(t, g, Now(), 0.5, 5, rpc.FloorNone, time.Minute)
		time.Sleep(time.Second)
		if g.Leave(t.Context(), updater); len(updater.usage) != 1 {
			t.Errorf("tells %+v", updater.usage)
		}
	})
}
