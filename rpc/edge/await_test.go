// SPDX-License-Identifier: Apache-2.0

package edge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/edge"
)

const tenPerSecond = "limits: [{key: k, limit: 10/s, burst: 1, algorithm: even}]"

// A request whose deadline comes before its turn is refused, and delays no other request.
func TestARequestThatCannotWaitUntilItsTurnIsRefusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enginetest.Of(t, tenPerSecond)
		b.Decide(t.Context(), edge.Ask{Key: "k", Cost: 1})
		began := time.Now()
		for range 9 {
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
			d, err := edge.Await(ctx, b, edge.Ask{Key: "k", Cost: 1, Longest: time.Second})
			if d.OK || d.Reason != edge.Limited || d.RetryAfter != 40*time.Millisecond || err != nil {
				t.Errorf("got %+v, %v", d, err)
			}
			cancel()
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("they were refused after %v", waited)
		}
		if d, err := edge.Await(t.Context(), b, edge.Ask{Key: "k", Cost: 1, Longest: time.Second}); !d.OK || err != nil || time.Since(began) != 100*time.Millisecond {
			t.Errorf("a patient request: %+v, %v, after %v", d, err, time.Since(began))
		}
	})
}

func TestARequestThatEndsBeforeItsTurnIsNotOK(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enginetest.Of(t, tenPerSecond)
		b.Decide(t.Context(), edge.Ask{Key: "k", Cost: 1})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		for _, when := range []string{"while it waits", "before it begins"} {
			d, err := edge.Await(ctx, b, edge.Ask{Key: "k", Cost: 1, Longest: time.Second})
			if d.OK || !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %+v, %v", when, d, err)
			}
			if d := b.Decide(t.Context(), edge.Ask{Key: "k"}); d.Left < 0.5 {
				t.Errorf("%s it ended, and %v are left", when, d.Left)
			}
		}
	})
}

// A request that waits goes on as soon as nothing limits its key any more.
func TestARequestDoesNotWaitWhileNothingIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits, err := dynamicconfig.Parse("limits.yaml", []byte(tenPerSecond))
		if err != nil {
			t.Fatal(err)
		}
		group := limiter.NewGroup(limits, 1)
		b := engine.New(group, nil)
		b.Decide(t.Context(), edge.Ask{Key: "k", Cost: 1})
		time.AfterFunc(30*time.Millisecond, func() {
			none, err := dynamicconfig.Parse("limits.yaml", []byte("{}"))
			if err != nil {
				t.Error(err)
			}
			group.Configure(none)
		})
		began := time.Now()
		if d, err := edge.Await(t.Context(), b, edge.Ask{Key: "k", Cost: 1, Longest: time.Second}); !d.OK || err != nil {
			t.Errorf("%+v, %v", d, err)
		}
		if waited := time.Since(began); waited != 30*time.Millisecond {
			t.Errorf("it waited for %v", waited)
		}
	})
}

// forgetful is an Engine that has no way to give tokens back.
type forgetful struct{ asked []edge.Kind }

func (f *forgetful) Decide(_ context.Context, a edge.Ask) edge.Decision {
	f.asked = append(f.asked, a.Kind)
	return edge.Decision{OK: true, Wait: time.Second}
}

// An Engine that holds nothing is asked once, and is not told that the caller has left.
func TestARequestWaitsForAnEngineThatHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e forgetful
		began := time.Now()
		if d, err := edge.Await(t.Context(), &e, edge.Ask{Key: "k", Cost: 1, Longest: time.Minute}); !d.OK || err != nil || time.Since(began) != time.Second {
			t.Errorf("%+v, %v, after %v", d, err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		if d, err := edge.Await(ctx, &e, edge.Ask{Key: "k", Cost: 1, Longest: time.Minute}); d.OK || !errors.Is(err, context.Canceled) {
			t.Errorf("the caller has left: %+v, %v", d, err)
		}
		if len(e.asked) != 2 {
			t.Errorf("it was asked %v", e.asked)
		}
	})
}
