// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// A host whose migration does not ask auto keeps its grant until the lease ends. When auto decides again before that,
// the owner is charged with what the other side allowed meanwhile, and not with what it has paid itself.
func TestAutoThatAMigrationLeftWithAGrantGivesNoSecondBurst(t *testing.T) {
	const burst = 20
	for _, other := range []string{"even", "redis"} {
		for _, next := range []string{"algorithm: auto", "migrate: {from: " + other + ", to: auto, mode: new}", "migrate: {from: " + other + ", to: auto, mode: old-shadow-new}"} {
			for _, meanwhile := range []int{1, burst} {
				now, owner, redis := stage.Now(), &drained{left: burst}, &drained{left: burst}
				g := limiter.NewGroup(traceLimits(t, "limits: [{key: k, limit: 2.5/s, burst: 20, algorithm: auto}]"), 1, limiter.WithMigration(shadow.Migrator()),
					limiter.WithRemote("auto", owner), limiter.WithRemote("redis", redis), driver.WithBackground(func(f func()) { f() }))
				take := func(n int) {
					for range n {
						if v, _ := g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final}); !v.OK() {
							t.Fatalf("%s, %s: %+v", other, next, v)
						}
					}
				}
				configure := func(rule string) {
					now = now.Add(time.Millisecond)
					driver.Of(g).Configure(now, traceLimits(t, fmt.Sprintf("limits: [{key: k, limit: 2.5/s, burst: 20, %s}]", rule)))
				}
				take(burst)
				now = now.Add(time.Second)
				for _, b := range driver.Of(g).Report(now) {
					grants := grantOf(b.Usage.Len(), 1./(1<<42), burst, time.Minute)
					grants.Tokens = []float64{0}
					if err := driver.Of(g).Apply(now, b, nil, grants); err != nil {
						t.Fatal(err)
					}
				}
				if st, _ := g.InspectAt(now.Time(), "k"); st.Shares[0].Asks {
					t.Fatalf("no grant: %+v", st)
				}
				configure("migrate: {from: " + other + ", to: auto, mode: old}")
				now = now.Add(8 * time.Second)
				owner.left, redis.left = burst, burst // both have filled in
				take(meanwhile)
				configure(next)
				if want := float64(burst - meanwhile); owner.left != want {
					t.Errorf("%s, then %s: the owner has %v tokens after %d of %d were used, want %v", other, next, owner.left, meanwhile, burst, want)
				}
			}
		}
	}
}
