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
