// SPDX-License-Identifier: Apache-2.0

package rpcyarpc_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
)

func TestMain(m *testing.M) { waittest.Main(m) }

// patience bounds what should take no time at all on loopback, on a machine that does other things.
const patience = time.Minute

var echo = rpc.DeciderFunc(func(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) { return payload, nil })

// counting counts the connections that it accepted and that are still open.
type counting struct {
	net.Listener

	accepted, open atomic.Int64
}

func (l *counting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.accepted.Add(1)
	l.open.Add(1)
	return &countedConn{Conn: conn, listener: l}, nil
}

type countedConn struct {
	net.Conn

	listener *counting
	once     sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.listener.open.Add(-1) })
	return c.Conn.Close()
}

func listen(t testing.TB, address string) *counting {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return &counting{Listener: l}
}

// serve runs d at address until the test ends.
func serve(t *testing.T, address string, d rpc.Decider, o rpcyarpc.ServerOptions) (*rpcyarpc.Server, *counting) {
	t.Helper()
	l := listen(t, address)
	s := rpcyarpc.NewServer(l, d, o)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s, l
}

func newClient(t *testing.T, o rpcyarpc.ClientOptions) *rpcyarpc.Client {
	t.Helper()
	c, err := rpcyarpc.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

// call asks address for an echo.
func call(t *testing.T, peers rpc.Peers, address string, payload *anypb.Any, timeout time.Duration) (*anypb.Any, error) {
	t.Helper()
	d, err := peers.Peer(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	return d.Update(ctx, "me", payload)
}

// eventually waits for a condition that another goroutine brings about.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline.C:
			t.Fatalf("not after %v: %s", patience, what)
		case <-tick.C:
		}
	}
}
