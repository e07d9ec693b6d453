// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/headgatetest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/health"
	"github.com/headgate/headgate/ringpop/static"
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

// own is code of the service that does not return until free is closed, whatever its contexts say.
type own struct {
	dynamicconfig.Source
	ringpop.Members
	free chan struct{}
}

func (o own) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	if op.Kind != stage.TakeTokens {
		<-o.free
	}
	return stage.Outcome{OK: true}, nil
}

type (
	ownSource  struct{ own }
	ownMembers struct{ own }
)

func (o ownSource) Watch(context.Context, func(*dynamicconfig.Snapshot, error)) error {
	<-o.free
	return nil
}

func (o ownMembers) Watch(_ context.Context, update func([]ringpop.Host)) error {
	update([]ringpop.Host{{Address: "127.0.0.1:7933"}})
	<-o.free
	return nil
}

// Code of the service that does not heed its context keeps no Stop for longer.
func TestStopEndsWhileCodeOfTheServiceDoesNot(t *testing.T) {
	for name, replace := range map[string]func(*own, *dynamicconfig.Source, *ringpop.Members){
		"a source": func(o *own, s *dynamicconfig.Source, _ *ringpop.Members) { *s = ownSource{*o} },
		"members":  func(o *own, _ *dynamicconfig.Source, m *ringpop.Members) { *m = ownMembers{*o} },
		"a remote": func(*own, *dynamicconfig.Source, *ringpop.Members) {},
	} {
		synctest.Test(t, func(t *testing.T) {
			static, err := static.New(ringpop.Host{Address: "127.0.0.1:7933"})
			if err != nil {
				t.Fatal(err)
			}
			var source dynamicconfig.Source = memory.New(limits(t, `limits: [{key: k, limit: 10/s, algorithm: mine}]`))
			var members ringpop.Members = static
			o := &own{Source: source, free: make(chan struct{})}
			replace(o, &source, &members)
			n, err := headgate.New(headgate.Config{Address: "127.0.0.1:7933"}, source, members,
				headgate.WithTransport(&late{starts: 1}), headgate.WithRemote("mine", o), quiet)
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // until the source is watched
			if name == "a remote" {
				n.For("k").Charge(1)
			}
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if err := n.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 4*time.Second {
				t.Errorf("%s: %v after %v of 3 s", name, err, time.Since(began))
			}
			time.AfterFunc(time.Minute, func() { close(o.free) })
			if err := n.Stop(context.Background()); err != nil || time.Since(began) < time.Minute {
				t.Errorf("%s: later: %v after %v", name, err, time.Since(began))
			}
		})
	}
}

// panicking is members whose code panics.
type panicking struct{}

func (panicking) Watch(context.Context, func([]ringpop.Host)) error { panic("a defect of the members") }

// broken is a source whose code panics once it has been loaded, and once more.
type broken struct {
	dynamicconfig.Source
	*atomic.Int64
}

func (b broken) Load(ctx context.Context) (*dynamicconfig.Snapshot, error) {
	if b.Add(1) == 2 {
		panic("a defect of Load")
	}
	return b.Source.Load(ctx)
}

func (b broken) Watch(ctx context.Context, update func(*dynamicconfig.Snapshot, error)) error {
	if b.Add(1) <= 5 {
		panic("a defect of Watch")
	}
	return b.Source.Watch(ctx, update)
}

// A source that panics is one that fails, and is asked again after a while.
func TestASourceThatPanicsIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		members, err := static.New(ringpop.Host{Address: "127.0.0.1:7933"})
		if err != nil {
			t.Fatal(err)
		}
		source := memory.New(limits(t, "limits: []"))
		n, err := headgate.New(headgate.Config{Address: "127.0.0.1:7933"}, broken{source, new(atomic.Int64)}, members, headgate.WithTransport(&late{starts: 1}), quiet)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := n.Limits().LastError(); err == nil || !strings.Contains(err.Error(), "a defect of Watch") {
			t.Errorf("the error is %v", err)
		}
		time.Sleep(time.Minute)
		source.Set(limits(t, "limits: [{key: k, limit: 0/s}]"))
		if synctest.Wait(); n.For("k").Allow() || n.Limits().LastError() != nil {
			t.Errorf("the newest limits are not in force: %v", n.Limits().LastError())
		}
		if err := n.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestMembersThatPanicAreAnError(t *testing.T) {
	for _, opts := range [][]headgate.Option{nil, {headgate.WithHealth(health.Config{})}} {
		opts = append(opts, headgate.WithTransport(&late{starts: 1}), quiet)
		n, err := headgate.New(headgate.Config{Address: "127.0.0.1:7933"}, memory.New(limits(t, "limits: []")), panicking{}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "a defect of the members") {
			t.Error(err)
		}
	}
}
