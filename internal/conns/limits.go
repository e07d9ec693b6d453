// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"cmp"
	"net"
	"slices"
	"time"
)

// Limits bound what clients of HTTP/2 hold with requests that have not arrived
// whole. A connection that breaks one is closed. They hold for connections that
// are inspected: see Inspect.
type Limits struct {
	// Unfinished bounds the unfinished requests of one connection; > 0.
	Unfinished int
	// Bytes bounds what all unfinished requests of one connection have sent, in
	// bytes; > 0.
	Bytes int64
	// TotalBytes bounds the same over all connections of a listener; > 0. Beyond
	// it, the connections with the most lose it.
	TotalBytes int64
	// Resets bounds the requests that the client of one connection ends itself
	// within 10 s; > 0.
	Resets int
	// Receive is how long one request may take to arrive; > 0.
	Receive time.Duration
	// Idle is how long a connection may send nothing at all; > 0.
	Idle time.Duration
}

// DefaultLimits are for servers whose messages have at most 4 MiB.
var DefaultLimits = Limits{
	Unfinished: 1000,
	Bytes:      16 << 20,
	TotalBytes: 64 << 20,
	Resets:     5000,
	Receive:    10 * time.Second,
	Idle:       10 * time.Minute,
}

// Limit sets the limits of connections that are inspected; default
// DefaultLimits. Call it before the first Accept.
func (l *Listener) Limit(limits Limits) { l.limits = limits }

// Inspect returns text, which is what a server of HTTP/2 reads from raw: raw
// itself or, with TLS, what decrypts it. The Listener's Limits hold for it from
// then on. If raw was not accepted by a Listener, Inspect returns text as it is.
func Inspect(raw, text net.Conn) net.Conn {
	for {
		switch c := raw.(type) {
		case *conn:
			c.requests.begin(time.Now())
			return &inspected{Conn: text, of: c}
		case interface{ NetConn() net.Conn }:
			raw = c.NetConn()
		default:
			return text
		}
	}
}

// begin has r count the requests of a connection that has sent nothing yet.
func (r *requests) begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.in.skip, r.heard = prefaceLength, now
	r.unfinished = make(map[uint32]request)
}

// inspected is a connection of HTTP/2 under Limits.
type inspected struct {
	net.Conn

	of *conn
}

// Read implements io.Reader.
func (c *inspected) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.of.check(p[:n])
	}
	return n, err
}

// Write implements io.Writer.
func (c *inspected) Write(p []byte) (int, error) {
	c.of.requests.sent(p)
	return c.Conn.Write(p)
}

// check notes what came, and closes what breaks the limits.
func (c *conn) check(p []byte) {
	l := c.listener
	bytes, unfinished, resets := c.requests.arrived(p, time.Now())
	switch {
	case bytes > l.limits.Bytes || unfinished > l.limits.Unfinished || resets > l.limits.Resets:
		l.limited.Inc(1)
		_ = c.Close()
	case l.held.Load() > l.limits.TotalBytes:
		l.relieve()
	}
}

// relieve closes the connections whose unfinished requests have the most bytes,
// until all have three quarters of what they may.
func (l *Listener) relieve() {
	type holder struct {
		conn  *conn
		bytes int64
	}
	var holders []holder
	l.mu.Lock()
	for c := range l.conns {
		if bytes := c.requests.held(); bytes > 0 {
			holders = append(holders, holder{c, bytes})
		}
	}
	l.mu.Unlock()
	slices.SortFunc(holders, func(a, b holder) int { return cmp.Compare(b.bytes, a.bytes) })
	for _, h := range holders {
		if l.held.Load() <= l.limits.TotalBytes/4*3 {
			return
		}
		l.limited.Inc(1)
		_ = h.conn.Close()
	}
}
