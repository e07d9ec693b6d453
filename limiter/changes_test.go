// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// drained is a Remote that never fills.
type drained struct{ left float64 }

func (d *drained) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	switch {
	case op.Kind == stage.ChargeTokens:
		d.left -= op.N
	case op.Kind == stage.ReturnTokens:
		d.left += op.N
	case op.N > d.left:
		return stage.Outcome{Left: d.left}, nil
	default:
		d.left -= op.N
	}
	return stage.Outcome{OK: true, Left: d.left}, nil
}

// No change of a rule, from and to any algorithm, mode and kind of key, gives a
// second burst. A bucket here fills too slowly to matter.
func TestNoChangeOfARuleGivesASecondBurst(t *testing.T) {
	const burst = 20
	algorithms := []string{"even", "elastic", "request-weighted", "exact", "redis", "auto"}
	modes := []dynamicconfig.Mode{dynamicconfig.ModeOld, dynamicconfig.ModeOldShadowNew, dynamicconfig.ModeNewShadowOld, dynamicconfig.ModeNew}
	drawRule := func(rt *rapid.T) (r dynamicconfig.Rule) {
		r = dynamicconfig.Rule{Key: "k", Limit: 1e-6, Burst: burst, IdleAfter: time.Hour}
		switch r.Algorithm = pick(rt, "algorithm", algorithms...); rapid.IntRange(0, 5).Draw(rt, "what") {
		case 0, 1, 2:
			if to := pick(rt, "to", algorithms...); to != r.Algorithm {
				r.Migration = &dynamicconfig.Migration{From: r.Algorithm, To: to, Mode: pick(rt, "mode", modes...)}
			}
		case 3:
			r.Key = "other"
		case 4:
			r = dynamicconfig.Rule{Key: "k", Limit: 5, InFlight: true, Algorithm: "fair-share", Lease: time.Minute}
		}
		return r
	}
	rapid.Check(t, func(rt *rapid.T) {
		now := stage.Now()
		var options []limiter.Option
		for _, a := range []string{"exact", "redis", "auto"} {
			options = append(options, limiter.WithRemote(a, &drained{left: burst}))
		}
		options = append(options, limiter.WithMigration(shadow.Migrator()), limiter.WithSeed(1), limiter.WithBackground(func(f func()) { f() }))
		config := func(r dynamicconfig.Rule) *dynamicconfig.Snapshot {
			s, err := dynamicconfig.Config{
				Name: "test", Properties: dynamicconfig.Properties{UpdateInterval: time.Second}, Rules: []dynamicconfig.Rule{r}, Unmatched: dynamicconfig.UnmatchedDeny,
			}.Snapshot()
			if err != nil {
				rt.Fatal(err)
			}
			return s
		}
		g := limiter.NewGroup(config(drawRule(rt)), 1, options...)
		k, admitted := g.For("k"), 0
		for range rapid.IntRange(1, 8).Draw(rt, "changes") {
			for range rapid.IntRange(0, 30).Draw(rt, "events") {
				v, _ := k.Stage().Take(rt.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final})
				if v.OK() {
					admitted++
				}
			}
			if now = now.Add(pick(rt, "time", time.Millisecond, 10*time.Second)); rapid.Bool().Draw(rt, "reports") {
				g.Manual().Report(now)
			}
			g.Manual().Configure(now, config(drawRule(rt)))
		}
		if admitted > burst {
			rt.Fatalf("%d of a burst of %d", admitted, burst)
		}
	})
}
