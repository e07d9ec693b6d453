// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// plainRemote is a Remote with a bucket for each key.
type plainRemote map[string]*bucketRef

// bucket is that of key, which is under rule.
func (p plainRemote) bucket(key string, rule *dynamicconfig.Rule) *bucketRef {
	b := p[key]
	if b == nil {
		made := full(float64(rule.Limit), rule.Burst)
		b = &made
		p[key] = b
	}
	return b
}

func (p plainRemote) fill(seconds float64) {
	for _, b := range p {
		b.fill(seconds)
	}
}

func (p plainRemote) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	b := p.bucket(op.Key, op.Rule)
	o := stage.Outcome{OK: true}
	switch op.Kind {
	case stage.TakeTokens:
		wait := max(op.N-b.tokens, 0) / b.limit
		if o.OK = wait <= op.Longest.Seconds() && op.N <= b.burst; o.OK {
			o.Wait = time.Duration(wait * 1e9)
			b.add(-op.N)
		}
	case stage.ChargeTokens:
		b.add(-op.N)
	default:
		b.add(op.N)
	}
	o.Left = b.tokens
	return o, nil
}

const severalLimits = `limits:
  - {key: plain, limit: 1/s, burst: 10, algorithm: even}
  - {key: debt, limit: 1/s, burst: 10, max_debt: 5s, max_cost: 30, algorithm: even}
  - {key: waits, limit: 1/s, burst: 10, max_wait: 5s, algorithm: request-weighted}
  - {key: soft, limit: 1/s, burst: 10, enforce: 50%, algorithm: even}
  - {key: "s*", limit: 1/s, burst: 10, shared: true, algorithm: even}
  - {key: exact, limit: 1/s, burst: 10, algorithm: exact}
  - {key: auto, limit: 1/s, burst: 10, algorithm: auto}
  - {key: moved, limit: 1/s, burst: 10, migrate: {from: exact, to: elastic, mode: old}}
  - {key: refuses, limit: 1/s, burst: 1, algorithm: even}
`

// When one of several limits refuses, the others have what they had, wherever their buckets are,
// and nothing of them counts as used.
func TestARefusalOfSeveralLimitsTakesNothing(t *testing.T) {
	keys := []string{"plain", "debt", "waits", "soft", "s1", "s2", "exact", "auto", "moved"}
	rapid.Check(t, func(rt *rapid.T) {
		rapid.SyncTest(rt, func(rt *rapid.T) {
			time.Sleep(stage.Now().Sub(0).Abs())
			away := make(plainRemote)
			g := limiter.NewGroup(traceLimits(t, severalLimits), 1, limiter.WithMigration(shadow.Migrator()),
				limiter.WithRemote("exact", away), limiter.WithRemote("auto", away),
				driver.WithBackground(func(f func()) { f() }), driver.WithSeed(1))
			state := func() (all string) {
				for _, k := range keys {
					all += fmt.Sprintf("%s %.6f", k, g.For(k).Tokens())
					if b := away[k]; b != nil {
						all += fmt.Sprintf(" (%.6f elsewhere)", b.tokens)
					}
					st, _ := g.Inspect(k)
					for _, sh := range st.Shares {
						all += fmt.Sprintf(" %d used", sh.Allowed)
					}
					all += ", "
				}
				return all
			}
			for _, k := range keys {
				g.For(k).Allow() // so that each has a bucket
			}
			rt.Repeat(map[string]func(*rapid.T){
				"all": func(rt *rapid.T) {
					costs := make([]limiter.Cost, rapid.IntRange(1, 4).Draw(rt, "limits"))
					for i := range costs {
						costs[i] = limiter.Cost{Limiter: g.For(pick(rt, "key", keys...)), N: rapid.IntRange(0, 12).Draw(rt, "cost")}
					}
					if rapid.Bool().Draw(rt, "refuse") {
						costs = append(costs, limiter.Cost{Limiter: g.For("refuses"), N: 2})
					}
					for _, c := range costs { // so that the host has heard what the buckets elsewhere have
						c.Limiter.AllowN(time.Now(), 0)
					}
					synctest.Wait()
					before := state()
					_, refused := limiter.TakeAll(context.Background(), pick(rt, "longest", 0, time.Second, 4*time.Second), costs...)
					synctest.Wait()
					if after := state(); refused != nil && after != before {
						rt.Fatalf("%d of %q was refused: before %s\nafter %s", refused.Cost.N, refused.Cost.Limiter.Key(), before, after)
					}
				},
				"one": func(rt *rapid.T) {
					g.For(pick(rt, "key", keys...)).AllowN(time.Now(), rapid.IntRange(0, 12).Draw(rt, "cost"))
				},
				"time": func(rt *rapid.T) {
					d := pick(rt, "how long", time.Second/4, 3*time.Second)
					time.Sleep(d)
					away.fill(d.Seconds())
				},
				"report": func(rt *rapid.T) {
					for _, b := range driver.Of(g).Report(stage.Now()) {
						if rapid.Bool().Draw(rt, "is lost") {
							continue
						}
						grants := grantOf(b.Usage.Len(), 0.5, 5, 10*time.Second)
						if b.Usage.Algorithm != "request-weighted" {
							for range b.Usage.Len() {
								grants.Tokens = append(grants.Tokens, 3)
							}
						}
						if err := driver.Of(g).Apply(stage.Now(), b, nil, grants); err != nil {
							rt.Fatal(err)
						}
					}
				},
			})
		})
	})
}

// broken is a stage whose code panics.
type broken struct{ stage.Stage }

func (broken) Take(context.Context, stage.Request) (stage.Verdict, stage.Receipt) { panic("a defect") }

// Servers recover from the panic of a handler, and go on.
func TestAPanicTakesNothingOfSeveralLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := limiter.NewBucket(1, 10)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			limiter.AllowAll(t.Context(), limiter.Cost{Limiter: first.Limiter(), N: 6}, limiter.Cost{Limiter: limiter.FromStage(broken{}), N: 1})
		}()
		if left := first.Tokens(); left != 10 {
			t.Errorf("%v of 10 tokens are left", left)
		}
	})
}
