// SPDX-License-Identifier: Apache-2.0

package rpcyarpc

import (
	"net"
	"sync"
)

// trackingListener knows its connections, so that all can be closed. gRPC
// waits for a client that connected and never said anything.
type trackingListener struct {
	net.Listener

	mu    sync.Mutex
	conns map[*trackedConn]struct{}
	shut  bool
}

func track(l net.Listener) *trackingListener {
	return &trackingListener{Listener: l, conns: make(map[*trackedConn]struct{})}
}

// Accept waits for the next connection.
func (l *trackingListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &trackedConn{Conn: accepted, listener: l}
	l.mu.Lock()
	shut := l.shut
	if !shut {
		l.conns[conn] = struct{}{}
	}
	l.mu.Unlock()
	if shut { // it came in just before the listener closed
		_ = conn.Close()
	}
	return conn, nil
}

// closeAll closes all connections that are open, and those that still come.
func (l *trackingListener) closeAll() {
	l.mu.Lock()
	l.shut = true
	conns := l.conns
	l.conns = make(map[*trackedConn]struct{})
	l.mu.Unlock()
	for conn := range conns {
		_ = conn.Conn.Close()
	}
}

type trackedConn struct {
	net.Conn

	listener *trackingListener
}

// Close closes the connection, and forgets it.
func (c *trackedConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
