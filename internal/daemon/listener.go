// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net"
	"sync"
	"sync/atomic"
)

// cappedListener knows its connections: it closes at once what is one too
// many, so that its program tries another decider, and all of them in the end.
type cappedListener struct {
	net.Listener

	most    int
	refused atomic.Int64

	mu    sync.Mutex // protects following fields
	conns map[*cappedConn]struct{}
	shut  bool
}

func capped(l net.Listener, most int) *cappedListener {
	return &cappedListener{Listener: l, most: most, conns: make(map[*cappedConn]struct{})}
}

// Accept waits for the next connection that there is room for.
func (l *cappedListener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		conn := &cappedConn{Conn: accepted, listener: l}
		if l.admit(conn) {
			return conn, nil
		}
		l.refused.Add(1)
		_ = accepted.Close()
	}
}

func (l *cappedListener) admit(conn *cappedConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.shut || len(l.conns) >= l.most {
		return false
	}
	l.conns[conn] = struct{}{}
	return true
}

// closeAll closes all connections that are open, and those that still come.
func (l *cappedListener) closeAll() {
	l.mu.Lock()
	l.shut = true
	conns := l.conns
	l.conns = make(map[*cappedConn]struct{})
	l.mu.Unlock()
	for conn := range conns {
		_ = conn.Conn.Close()
	}
}

type cappedConn struct {
	net.Conn

	listener *cappedListener
}

// Close closes the connection, and makes room for another.
func (c *cappedConn) Close() error {
	c.listener.mu.Lock()
	delete(c.listener.conns, c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
