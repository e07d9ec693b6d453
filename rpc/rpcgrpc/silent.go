// SPDX-License-Identifier: Apache-2.0

package rpcgrpc

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
)

// silentFor is for how long calls on a connection time out, and nothing arrives on it, until the Client
// closes it. grpc then dials again, and sends no calls to a server that accepts the connection and
// does not speak. grpc's own pings take quietAfter and answerWithin, and cannot be sent sooner.
const silentFor = time.Second

// heard is a connection that knows when something arrived on it last. It is its own local
// address, by which a call finds the connection that grpc chose for it.
type heard struct {
	net.Conn
	net.Addr // the local one

	dialed time.Time
	last   atomic.Int64 // when something arrived, as a duration since dialed

	mu     sync.Mutex
	silent time.Duration // when the first call began that has timed out since last; guarded by mu
}

// hearing makes the connections of dial heard ones.
func hearing(dial func(context.Context, string) (net.Conn, error)) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return &heard{Conn: conn, Addr: conn.LocalAddr(), dialed: time.Now()}, nil
	}
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// Read implements net.Conn.
func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if n > 0 {
		h.last.Store(int64(time.Since(h.dialed)))
	}
	return n, err
}

// LocalAddr implements net.Conn. Under TLS too, it is what grpc says of a call's peer.
func (h *heard) LocalAddr() net.Addr { return h }

// timedOut notes that a call that began then, on the connection that p names, was not answered
// in time. It closes the connection if that has been silent for silentFor.
func timedOut(p *peer.Peer, began time.Time) {
	h, ok := p.LocalAddr.(*heard)
	if !ok {
		return // the call had no connection
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := time.Duration(h.last.Load()); h.silent <= last {
		h.silent = began.Sub(h.dialed)
		if h.silent <= last {
			return // the server said something meanwhile
		}
	}
	if time.Since(h.dialed)-h.silent >= silentFor {
		_ = h.Close()
	}
}
