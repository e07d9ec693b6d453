// SPDX-License-Identifier: Apache-2.0

package rpcgrpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/certtest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

// hanging is an edge in memory. While it hangs, its kernel accepts connections and takes
// what is sent, and nothing comes back.
type hanging struct {
	listener *bufconn.Listener
	dialed   atomic.Int64
	asked    atomic.Int64
	takes    atomic.Int64 // nanoseconds, for each call

	mu   sync.RWMutex  // protects goes
	goes chan struct{} // closed while it runs
}

func (h *hanging) hang() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.goes = make(chan struct{})
}

func (h *hanging) goOn() { close(h.goes) }

func (h *hanging) running() <-chan struct{} {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.goes
}

func (h *hanging) dial(ctx context.Context) (net.Conn, error) {
	h.dialed.Add(1)
	conn, err := h.listener.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	return &fromHanging{Conn: conn, of: h, closed: make(chan struct{})}, nil
}

type fromHanging struct {
	net.Conn
	of     *hanging
	once   sync.Once
	closed chan struct{}
}

func (c *fromHanging) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	select {
	case <-c.of.running():
		return n, err
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *fromHanging) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// between returns a Client of two edges, within a bubble, which speak TLS if encrypted.
func between(t *testing.T, encrypted bool) (*rpcgrpc.Client, [2]*hanging) {
	var edges [2]*hanging
	var trusts *tls.Config
	options := append(rpcgrpc.ServerDefaults(), grpc.WaitForHandlers(true))
	if encrypted {
		authority := certtest.New(t)
		options = append(options, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{
			authority.IssueAltered(t, "edge", func(c *x509.Certificate) { c.DNSNames = []string{"a", "b"} }),
		}})))
		trusts = &tls.Config{RootCAs: authority.Pool()}
	}
	for i := range edges {
		h := &hanging{listener: bufconn.Listen(1 << 20), goes: make(chan struct{})}
		close(h.goes)
		edges[i] = h
		server, healthy := grpc.NewServer(options...), health.NewServer()
		rpcgrpc.Register(server, rpc.DeciderFunc(func(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
			h.asked.Add(1)
			time.Sleep(time.Duration(h.takes.Load()))
			return payload, nil
		}), rpcgrpc.ServerOptions{})
		grpc_health_v1.RegisterHealthServer(server, healthy)
		healthy.SetServingStatus(rpcgrpc.Service, grpc_health_v1.HealthCheckResponse_SERVING)
		go func() { _ = server.Serve(h.listener) }()
		t.Cleanup(server.Stop)
	}
	c, err := rpcgrpc.NewClient([]string{"a:1", "b:1"}, rpcgrpc.ClientOptions{
		TLS: trusts,
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return edges[address[0]-'a'].dial(ctx)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	// Both are asked before the test begins.
	for edges[0].asked.Load() == 0 || edges[1].asked.Load() == 0 {
		_ = failures(c, 20*time.Millisecond)
	}
	return c, edges
}

// failures are those of calls that may take 50 ms each, one after the other, for so long.
func failures(c *rpcgrpc.Client, lasting time.Duration) (n int) {
	for ends := time.Now().Add(lasting); time.Now().Before(ends); time.Sleep(10 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		if _, err := c.Update(ctx, "me", word); err != nil {
			n++
		}
		cancel()
	}
	return n
}

// A process that is stopped keeps its connections, and its kernel accepts new ones.
func TestAServerThatHangsIsLeftOutAfterASecond(t *testing.T)        { leftOut(t, false) }
func TestAServerWithTLSThatHangsIsLeftOutAfterASecond(t *testing.T) { leftOut(t, true) }

func leftOut(t *testing.T, encrypted bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, edges := between(t, encrypted)
		edges[1].hang()
		if n := failures(c, 1200*time.Millisecond); n == 0 {
			t.Error("no call reached the server that hangs")
		}
		if n := failures(c, time.Minute); n != 0 {
			t.Errorf("%d calls failed in a minute, after the first second", n)
		}
		edges[1].goOn()
		failures(c, 10*time.Second)
		before := edges[1].asked.Load()
		if n := failures(c, time.Second); n != 0 || edges[1].asked.Load() == before {
			t.Errorf("once it goes on, %d calls fail, and it is asked %d times", n, edges[1].asked.Load()-before)
		}
	})
}

func TestAServerThatPausesOrIsSlowKeepsItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, edges := between(t, false)
		for range 5 {
			edges[1].hang()
			if n := failures(c, 500*time.Millisecond); n == 0 {
				t.Error("no call reached the server that pauses")
			}
			edges[1].goOn()
			if n := failures(c, 3*time.Second); n != 0 {
				t.Errorf("%d calls fail after the pause", n)
			}
		}
		edges[1].takes.Store(int64(100 * time.Millisecond))
		if n := failures(c, 5*time.Second); n == 0 {
			t.Error("no call failed at the slow server")
		}
		if n := edges[1].dialed.Load(); n != 1 {
			t.Errorf("the server was dialed %d times", n)
		}
	})
}
