// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// A caller waits for slots of a shared rule for longer than its key is kept. Then the key alone gets
// another rule.
func TestAWaiterOfAForgottenKeyFollowsTheRules(t *testing.T) {
	for name, most := range map[string]string{"forgotten": "10", "one too many": "1"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := "{key: 'db:*', limit: 1 in-flight, shared: true, algorithm: even, idle_after: 5s, max_keys: " + most + "}"
				g := limiter.NewGroup(traceLimits(t, "limits: ["+shared+"]"), 1)
				if _, ok := g.For("db:b").TryAcquire(1); !ok {
					t.Fatal("no slot")
				}
				served := make(chan error, 1)
				go func() {
					_, err := g.For("db:a").Acquire(t.Context(), 1)
					served <- err
				}()
				synctest.Wait()
				for range 20 {
					time.Sleep(time.Second)
					driver.Of(g).Report(stage.Now())
				}
				if n, placed := g.Others("db:a"); placed {
					t.Fatalf("the key is kept beside %d others", n)
				}
				g.Configure(traceLimits(t, "limits: [{key: 'db:a', limit: 1 in-flight, algorithm: even}, "+shared+"]"))
				synctest.Wait()
				select {
				case err := <-served:
					if err != nil {
						t.Error(err)
					}
				default:
					t.Error("the caller waits for slots of the shared rule")
				}
			})
		})
	}
}

// interrupted is a context that calls then when it is asked for the nth time whether it has ended.
type interrupted struct {
	context.Context
	n    int
	then func()
}

func (a *interrupted) Err() error {
	if a.n--; a.n == 0 {
		a.then()
	}
	return a.Context.Err()
}

// The rules change when a caller has read which slots decide, and does not wait for them yet.
func TestACallerThatIsAboutToWaitFollowsTheRules(t *testing.T) {
	const shared = "{key: 'k*', limit: 1 in-flight, shared: true, algorithm: even}"
	migrating := func(mode string) string {
		return "{key: k, limit: 1 in-flight, migrate: {from: even, to: fair-share, mode: " + mode + "}}"
	}
	for name, rules := range map[string][2]string{
		"a shared rule":                {shared, "{key: k, limit: 1 in-flight, algorithm: even}, " + shared},
		"a mode that measures":         {migrating("old"), migrating("new-shadow-old")},
		"a mode that does not":         {migrating("old"), migrating("new")},
		"a mode that lets all through": {migrating("old"), migrating("disabled")},
	} {
		for n := 1; n < 4; n++ {
			for _, options := range [][]limiter.Option{nil, {limiter.WithMigration(shadow.Migrator())}} {
				t.Run(fmt.Sprintf("%s, %d, %d options", name, n, len(options)), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						g := limiter.NewGroup(traceLimits(t, "limits: ["+rules[0]+"]"), 1, options...)
						if _, ok := g.For("k2").TryAcquire(1); name == "a shared rule" && !ok {
							t.Fatal("no slot")
						}
						if name != "a shared rule" {
							g.For("k").TryAcquire(1)
						}
						ctx, cancel := context.WithCancel(t.Context())
						defer cancel()
						change := sync.OnceFunc(func() { g.Configure(traceLimits(t, "limits: ["+rules[1]+"]")) })
						served := make(chan error, 1)
						go func() {
							_, err := g.For("k").Acquire(&interrupted{ctx, n, change}, 1)
							served <- err
						}()
						synctest.Wait()
						change() // unless the caller did
						synctest.Wait()
						select {
						case err := <-served:
							if err != nil {
								t.Error(err)
							}
						default:
							t.Error("the caller waits for the slots that decided before")
						}
					})
				})
			}
		}
	}
}

// One of many callers that wait for slots of a shared rule gets slots of its own. The others are
// served in the order in which they came.
func TestWaitersKeepTheirPlacesWhenAnotherLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const shared = "{key: 'k*', limit: 1 in-flight, shared: true, algorithm: even}"
		g := limiter.NewGroup(traceLimits(t, "limits: ["+shared+"]"), 1)
		release, _ := g.For("k0").TryAcquire(1)
		var served []int
		for i := range 50 {
			go func() {
				release, err := g.For(fmt.Sprint("k", i)).Acquire(t.Context(), 1)
				if err != nil {
					t.Error(err)
				}
				served = append(served, i)
				release()
			}()
			synctest.Wait()
		}
		g.Configure(traceLimits(t, "limits: [{key: k25, limit: 1 in-flight, algorithm: even}, "+shared+"]"))
		synctest.Wait()
		if len(served) != 1 || served[0] != 25 {
			t.Errorf("%v are served", served)
		}
		release()
		synctest.Wait()
		if len(served) != 50 || !slices.IsSorted(served[1:]) {
			t.Errorf("%v are served", served)
		}
	})
}
