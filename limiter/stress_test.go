// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// moody is a Remote that answers, is busy, or panics.
type moody struct{}

func (moody) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	switch rand.IntN(50) {
	case 0:
		panic("a defect of somebody's Remote")
	case 1, 2, 3, 4, 5:
		return stage.Outcome{}, stage.ErrBusy
	}
	return stage.Outcome{OK: op.Kind != stage.TakeTokens || rand.IntN(2) == 0, Left: 3, Lent: op.More / 4}, nil
}

func one[E any](of ...E) E { return of[rand.IntN(len(of))] }

// drawRules are rules of any kind for the keys of a stress test.
func drawRules(t *testing.T) *dynamicconfig.Snapshot {
	var rules []dynamicconfig.Rule
	for _, key := range []string{"a:*", "b:*", "c"} {
		if rand.IntN(8) == 0 {
			continue
		}
		r := dynamicconfig.Rule{
			Key: key, Limit: one[rate.Limit](0, 1, 100, 1000), MaxKeys: rand.IntN(6) + 1, IdleAfter: 10 * time.Millisecond,
			InFlight: rand.IntN(3) == 0, Shared: key == "b:*" && rand.IntN(2) == 0,
			Fallback: one(dynamicconfig.FallbackEven, dynamicconfig.FallbackOpen, dynamicconfig.FallbackClosed),
		}
		names := []string{"even", "fair-share", "static", "proportional-share"}
		if !r.InFlight {
			names = []string{"even", "elastic", "auto", "exact", "redis", "fair-share", "request-weighted", "drop-ratio"}
			r.MaxDebt, r.MaxWait = one(0, time.Second), one(0, 5*time.Millisecond)
			if r.Limit > 0 {
				r.Burst = float64(rand.IntN(50) + 1)
			}
		}
		r.Algorithm = one(names...)
		if to := one(names...); to != r.Algorithm && rand.IntN(2) == 0 {
			r.Migration = &dynamicconfig.Migration{From: r.Algorithm, To: to, Mode: one(
				dynamicconfig.ModeDisabled, dynamicconfig.ModeOld, dynamicconfig.ModeOldShadowNew, dynamicconfig.ModeNewShadowOld, dynamicconfig.ModeNew)}
			r.Algorithm = ""
		}
		rules = append(rules, r)
	}
	s, err := dynamicconfig.Config{Properties: dynamicconfig.Properties{UpdateInterval: 100 * time.Millisecond}, Rules: rules}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Everything happens to a Group at once: no call panics or waits for ever, and in the end
// no slots are held. TestModel has the laws of what happens one after the other.
func TestEverythingAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := limiter.NewGroup(drawRules(t), 1, limiter.WithMigration(shadow.Migrator()),
			limiter.WithRemote("exact", moody{}), limiter.WithRemote("auto", moody{}), limiter.WithRemote("redis", moody{}))
		m, held, ctx := driver.Of(g), g.For("a:1"), context.Background()
		keys := []string{"a:1", "a:2", "a:3", "a:4", "a:5", "a:6", "b:1", "b:2", "b:*", "c", "d"}
		any := func() *limiter.Limiter { return g.For(one(keys...)) }
		var all sync.WaitGroup
		for _, f := range []func(){
			func() {
				any().Allow()
				held.Allow()
				any().Charge(3)
				any().Reserve().Cancel()
			},
			func() {
				short, stop := context.WithTimeout(ctx, time.Millisecond)
				defer stop()
				_ = any().WaitN(short, rand.IntN(4)) // any answer will do
			},
			func() {
				short, stop := context.WithTimeout(ctx, time.Duration(rand.IntN(2000))*time.Microsecond)
				defer stop()
				release, _ := any().Acquire(short, rand.IntN(3)+1, limiter.Priority(int64(rand.IntN(3))))
				time.Sleep(one(0, time.Millisecond))
				release()
				release, _ = any().TryAcquire(1)
				release()
			},
			func() {
				if e := any().Take(ctx, rand.IntN(5), -1); rand.IntN(2) == 0 {
					e.Settle(rand.IntN(9))
				} else {
					e.Cancel()
				}
				limiter.AllowAll(ctx, limiter.Cost{Limiter: any(), N: 1}, limiter.Cost{Limiter: any(), N: 2})
			},
			func() { g.Configure(drawRules(t)) },
			func() {
				g.SetHosts(rand.IntN(4))
				g.Introduce()
				any().SetDemand(float64(rand.IntN(9) - 2))
			},
			func() {
				key := one(keys...)
				g.Trace(key, rand.IntN(2) == 0)
				g.Traced(key)
				g.Inspect(key)
				g.Elsewhere(key)
				g.Keys()
			},
			func() {
				batches := m.Report
				if rand.IntN(2) == 0 {
					batches = m.Early
				}
				for _, b := range batches(stage.Now()) {
					all.Go(func() {
						time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
						if rand.IntN(4) == 0 {
							m.Fail(stage.Now(), b, nil)
						} else if err := m.Apply(stage.Now(), b, nil, grantOf(b.Usage.Len(), one(0, 0.5, 1), 5, time.Duration(rand.IntN(20))*time.Millisecond)); err != nil {
							t.Error(err)
						}
						m.Done(b)
					})
				}
			},
		} {
			for range 2 {
				all.Go(func() {
					for range 150 {
						f()
						time.Sleep(time.Millisecond)
					}
				})
			}
		}
		all.Wait()

		g.Configure(traceLimits(t, "limits: [{key: '*', limit: 10 in-flight, algorithm: even}]"))
		for _, key := range keys {
			st, _ := g.Inspect(key)
			for _, s := range st.Shares {
				if s.Held != 0 || s.Waiting != 0 {
					t.Errorf("%s: all is released: %+v", key, s)
				}
			}
		}
	})
}
