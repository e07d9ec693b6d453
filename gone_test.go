// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/hosted"
	"github.com/headgate/headgate/rpc/rpcyarpc"
)

// silence listens, and counts the connections that it accepts and that are open. It
// never says a word.
func silence(t *testing.T) (address string, open *atomic.Int64) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	open = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			open.Add(1)
			go func() {
				defer open.Add(-1)
				defer c.Close()
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	return l.Addr().String(), open
}

// Members of a list that nobody reaches, because a network is silent, refuses, or
// answers nothing at all, take their connections and goroutines along when they leave
// the list.
func TestMembersThatGoTakeTheirConnectionsAlong(t *testing.T) {
	members, asked := 400, int64(100)
	if testrun.Long() {
		members, asked = 2000, 500
	}
	quiet, open := silence(t)
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = refusing.Close()
	for _, network := range []struct {
		name string
		dial func(ctx context.Context) (net.Conn, error)
	}{
		{"silent", func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", quiet) }},
		{"refusing", func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", refusing.Addr().String())
		}},
		{"void", func(ctx context.Context) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
	} {
		t.Run(network.name, func(t *testing.T) {
			var dialled, dialling atomic.Int64
			own, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			self := ringpop.Host{Address: own.Addr().String()}
			list, err := hosted.New(self)
			if err != nil {
				t.Fatal(err)
			}
			transport := &rpcyarpc.Standalone{Listener: own, Client: rpcyarpc.ClientOptions{Dial: func(ctx context.Context, _ string) (net.Conn, error) {
				dialled.Add(1)
				dialling.Add(1)
				defer dialling.Add(-1)
				return network.dial(ctx)
			}}}
			node, err := headgate.New(headgate.Config{Address: self.Address}, memory.New(limits(t, `
defaults: {update_interval: 100ms, algorithm: request-weighted}
limits:
  - {key: "*", limit: 1000/s}
`)), list, headgate.WithTransport(transport), headgate.WithLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				t.Fatal(err)
			}
			if err := node.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := node.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			const late = 3 // goroutines of the node may begin after Start has returned
			before := runtime.NumGoroutine()

			all := []ringpop.Host{self}
			for i := range members {
				all = append(all, ringpop.Host{Address: fmt.Sprintf("192.0.2.1:%d", 1+i)})
			}
			if err := list.Set(all); err != nil {
				t.Fatal(err)
			}
			eventually(t, "many members are dialled", func() bool {
				for i := range members {
					node.For(fmt.Sprint("key-", i)).Allow()
				}
				return dialled.Load() >= asked
			})
			most := runtime.NumGoroutine()
			if err := list.Set(all[:1]); err != nil {
				t.Fatal(err)
			}
			eventually(t, "no connection is left", func() bool { return open.Load() == 0 && dialling.Load() == 0 })
			eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+late })
			t.Logf("%d dialled; %d goroutines before, %d with %d members", dialled.Load(), before, most, members)
		})
	}
}
