// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/headgatetest"
	"github.com/headgate/headgate/limiter"
)

// Stop returns when nothing runs any more. After a Stop that ended too early, another one waits for
// what runs still.
func TestStopAfterAStopThatFailedWaitsForTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var ended atomic.Bool
		n := headgatetest.NewNode(t, `limits: [{key: k, limit: 10/s}]`,
			headgate.WithLimiter(limiter.WithListener(func([]limiter.Event) { <-free; ended.Store(true) })))
		n.For("k").Allow()
		time.Sleep(time.Second)
		for range 2 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := n.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("stopped with %v while a listener runs", err)
			}
			cancel()
		}
		time.AfterFunc(time.Minute, func() { close(free) })
		if err := n.Stop(t.Context()); err != nil || !ended.Load() {
			t.Errorf("%v; the listener has returned: %t", err, ended.Load())
		}
		if err := n.Stop(t.Context()); err != nil {
			t.Errorf("once all has ended: %v", err)
		}
	})
}

// One Stop that waits for long does not keep another one from ending with its context.
func TestStopEndsWithItsOwnContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, first := make(chan struct{}), make(chan error, 1)
		n := headgatetest.NewNode(t, `limits: [{key: k, limit: 10/s}]`,
			headgate.WithLimiter(limiter.WithListener(func([]limiter.Event) { <-free })))
		n.For("k").Allow()
		time.Sleep(time.Second)
		time.AfterFunc(time.Minute, func() { close(free) })
		go func() { first <- n.Stop(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := n.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v of one second", err, time.Since(began))
		}
		if err := <-first; err != nil {
			t.Errorf("the first one: %v", err)
		}
	})
}

// stuck is a Transport to no other host, which answers one for some time after Stop.
type stuck struct {
	late
	ends time.Time
}

func (s *stuck) Stop(ctx context.Context) error {
	select {
	case <-time.After(time.Until(s.ends)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestStopAgainWaitsForTheTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends := time.Now().Add(time.Minute)
		n := over(t, &stuck{late: late{starts: 1}, ends: ends})
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopped with %v while the transport runs", err)
		}
		if err := n.Stop(t.Context()); err != nil || time.Now().Before(ends) {
			t.Errorf("%v, %v before the transport has ended", err, time.Until(ends))
		}
	})
}

// Nor does one that waits for the transport. Both end it.
func TestStopEndsWithItsOwnContextWhileTheTransportRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, first := time.Now(), make(chan error, 1)
		n := over(t, &stuck{late: late{starts: 1}, ends: began.Add(time.Minute)})
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() { first <- n.Stop(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v of one second", err, time.Since(began))
		}
		if err := n.Start(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("started with %v while it stops", err)
		}
		if err := <-first; err != nil {
			t.Errorf("the first one: %v", err)
		}
		if err := n.Stop(ctx); err != nil {
			t.Errorf("once all has ended: %v", err)
		}
	})
}
