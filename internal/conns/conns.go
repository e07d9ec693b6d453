// SPDX-License-Identifier: Apache-2.0

// Package conns has a listener that knows its connections, so that a server can bound them, and
// close in the end also those that never said a word. It also has the kernel close connections to
// hosts that are gone. One lock guards the connections, and one the requests.
package conns

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uber-go/tally/v4"
)

// Listener knows its connections: it closes at once what is one too many, so
// that its program tries another host, and all of them in the end. No peer keeps
// the others out: when there is no room, the peer with the most connections loses
// one to a peer that has at least two fewer. Connections to hosts that are gone are closed; see
// CloseDead. Use Track. Safe for concurrent use.
type Listener struct {
	net.Listener

	most    int
	refused atomic.Int64

	open       tally.Gauge   // connections
	turnedAway tally.Counter // connections

	limits  Limits
	held    totals // of all connections
	limited tally.Counter

	mu       sync.Mutex // protects following fields
	conns    map[*conn]struct{}
	peers    peers // of conns
	shut     bool
	sweeping *time.Timer // nil: no sweep is to come
}

// Track returns a Listener of what l accepts, with at most so many connections
// open at once; 0: as many as come.
func Track(l net.Listener, most int) *Listener {
	t := &Listener{Listener: l, most: most, limits: DefaultLimits, conns: make(map[*conn]struct{})}
	t.Measure(tally.NoopScope)
	t.peers = newPeers()
	return t
}

// Measure sets where metrics go: `connections`, that are open,
// `connections_refused`, and `connections_limited`, which broke Limits; default
// nowhere. Call it before the first Accept.
func (l *Listener) Measure(scope tally.Scope) {
	l.open, l.turnedAway = scope.Gauge("connections"), scope.Counter("connections_refused")
	l.limited = scope.Counter("connections_limited")
}

// Accept waits for the next connection that there is room for.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		CloseDead(accepted)
		c := &conn{Conn: accepted, listener: l, peer: peerOf(accepted.RemoteAddr())}
		c.requests.totals = &l.held
		loser, ok := l.admit(c)
		if loser != nil {
			l.refused.Add(1)
			l.turnedAway.Inc(1)
			_ = loser.Close()
		}
		if ok {
			return c, nil
		}
	}
}

// admit makes c one of l's connections, if there is room. loser is the connection
// to close, if there is none: c, or the one that makes room for it.
func (l *Listener) admit(c *conn) (loser net.Conn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.shut {
		return c.Conn, false
	}
	if l.most > 0 && len(l.conns) >= l.most {
		other := l.peers.surplus(c.peer)
		if other == nil {
			return c.Conn, false
		}
		l.removeLocked(other)
		loser = other.Conn
	}
	l.conns[c] = struct{}{}
	l.peers.add(c)
	l.armLocked()
	l.open.Update(float64(len(l.conns)))
	return loser, true
}

func (l *Listener) removeLocked(c *conn) {
	if _, ok := l.conns[c]; !ok {
		return
	}
	delete(l.conns, c)
	l.peers.remove(c)
	c.requests.forget()
	l.open.Update(float64(len(l.conns)))
}

// Refused is how many connections were closed because there was no room.
func (l *Listener) Refused() int64 { return l.refused.Load() }

// Calls is how many requests over HTTP/2 have not been answered.
func (l *Listener) Calls() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()

	for c := range l.conns {
		n += c.requests.calls()
	}
	return n
}

// CloseAll closes all connections that are open, and those that still come.
// The listener itself stays open.
func (l *Listener) CloseAll() {
	l.mu.Lock()
	l.shut = true
	open := l.conns
	l.conns, l.peers = make(map[*conn]struct{}), newPeers()
	if l.sweeping != nil {
		l.sweeping.Stop()
		l.sweeping = nil
	}
	l.mu.Unlock()
	for c := range open {
		c.requests.forget()
		_ = c.Conn.Close()
	}
}

type conn struct {
	net.Conn

	listener *Listener
	peer     netip.Prefix
	plain    atomic.Bool // it speaks HTTP/1, and its requests count
	requests requests
}

// NetConn returns the connection that c was made of.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Close closes the connection, and makes room for another.
func (c *conn) Close() error {
	c.listener.mu.Lock()
	c.listener.removeLocked(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}
