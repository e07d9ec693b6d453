// SPDX-License-Identifier: Apache-2.0

package headgatetest

import (
	"context"
	"log/slog"
	"net"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
	"github.com/headgate/headgate/shadow"
)

// NewGroup returns a Group under limits, which is YAML as in a limits file. The
// Group is alone, so that each key has its whole limit. It starts no goroutine
// and never reports, so that rules with an algorithm that asks an owner go by
// their fallback. It fails t if limits are not valid.
func NewGroup(t TB, limits string, opts ...limiter.Option) *limiter.Group {
	t.Helper()
	return limiter.NewGroup(parse(t, limits), 1, append([]limiter.Option{limiter.WithMigration(shadow.Migrator())}, opts...)...)
}

// NewNode returns a Node under limits, which is YAML as in a limits file. The
// Node runs, owns all keys, and opens no socket. It stops when t ends. It fails
// t if limits are not valid. Its log is discarded, unless opts say otherwise. opts have no
// headgate.WithTransport: that opens sockets.
func NewNode(t TB, limits string, opts ...headgate.Option) *headgate.Node {
	t.Helper()
	members, err := static.New(ringpop.Host{Address: address})
	if err != nil {
		t.Fatalf("headgatetest: %v", err)
	}
	opts = append([]headgate.Option{
		headgate.WithListen(&listener{closed: make(chan struct{})}),
		headgate.WithLogger(slog.New(slog.DiscardHandler)),
	}, opts...)
	node, err := headgate.New(headgate.Config{Address: address}, memory.New(parse(t, limits)), members, opts...)
	if err == nil {
		err = node.Start(context.Background())
	}
	if err != nil {
		t.Fatalf("headgatetest: %v", err)
	}
	t.Cleanup(func() {
		if err := node.Stop(context.Background()); err != nil {
			t.Errorf("headgatetest: stop the node: %v", err)
		}
	})
	return node
}

func parse(t TB, limits string) *dynamicconfig.Snapshot {
	t.Helper()
	snapshot, err := dynamicconfig.Parse("limits", []byte(limits))
	if err != nil {
		t.Fatalf("headgatetest: %v", err)
	}
	return snapshot
}

// address is that of all Nodes. Nothing listens on it.
const address = "127.0.0.1:7933"

// listener is a net.Listener without connections.
type listener struct {
	once   sync.Once
	closed chan struct{}
}

// Accept waits until the listener closes.
func (l *listener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7933} }
