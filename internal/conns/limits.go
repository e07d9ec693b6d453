// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
)

// Limits bound what clients hold with requests that have not been answered. A connection
// that breaks one is closed. They hold for connections of HTTP/2 that are inspected, see
// Inspect, and those of bytes also for HTTP/1, see State.
type Limits struct {
	// Unfinished bounds the unfinished requests of one connection; > 0.
	Unfinished int
	// Bytes bounds what all unfinished requests of one connection have sent, headers
	// and bodies, and what large answers have not, in bytes; > 0.
	Bytes int64
	// TotalBytes bounds the same over all connections of a listener; > 0. Beyond
	// it, the peers with the most lose connections.
	TotalBytes int64
	// MoreCalls bounds the calls at once beside the first of each connection, over all
	// connections of a listener, until the server has ended them; > 0. Beyond it, the
	// peers with the most of those lose connections.
	MoreCalls int64
	// Resets bounds the requests that are reset within 1 s, by clients or because of
	// what they send, over all connections of a listener; > 0: the server may still
	// work on these. Beyond it, a peer with more than its even part loses the
	// connections on which more are reset.
	Resets int
	// Frames bounds the frames within 1 s that do nothing for a call, over all connections of
	// a listener, beside those that a client needs; > 0. Beyond it, a peer with more than its
	// even part loses the connections on which more come.
	Frames int
	// Receive is how long one request may take to arrive, and how long a client may take
	// no part of a large answer; > 0.
	Receive time.Duration
	// Idle is how long a connection may send nothing at all; > 0.
	Idle time.Duration
}

// DefaultLimits are for servers whose messages have at most 4 MiB.
var DefaultLimits = Limits{
	Unfinished: 1000,
	Bytes:      16 << 20,
	TotalBytes: 64 << 20,
	MoreCalls:  8192,
	Resets:     5000,
	Frames:     20_000,
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
	c := within(raw)
	if c == nil {
		return text
	}
	c.requests.begin(time.Now())
	return &inspected{Conn: text, of: c}
}

// LargeAnswer is the size of the largest answer that need not be noted, in bytes.
const LargeAnswer = 16 << 10

// RemoteAddr is the address of the client, with the connection: see Owe.
func (c *inspected) RemoteAddr() net.Addr { return &debtor{c.Conn.RemoteAddr(), c.of} }

// debtor is the address of a client of HTTP/2.
type debtor struct {
	net.Addr

	of *conn
}

// Owe notes that an answer of n bytes is to be sent to the client of an inspected
// connection, whose RemoteAddr is to. Until the client has taken it, the answer counts as
// the bytes of requests do. Call it for each answer of more than LargeAnswer bytes.
func Owe(to net.Addr, n int) {
	if d, ok := to.(*debtor); ok {
		d.of.bound(d.of.requests.owe(n) > d.of.listener.limits.Bytes)
	}
}

// Hold notes that the server takes n bytes more for the request of HTTP/1 that came on
// of, until that is answered. It does nothing for a connection without a State.
func Hold(of net.Conn, n int64) {
	if c := within(of); c != nil && c.plain.Load() {
		c.bound(c.requests.hold(n) > c.listener.limits.Bytes)
	}
}

// State is the ConnState of an http.Server of HTTP/1: the bytes of requests that are not
// answered yet count, encrypted as they are, for connections that a Listener accepted. It is Turns, too.
func State(of net.Conn, state http.ConnState) {
	if c := within(of); c != nil {
		switch state {
		case http.StateNew:
			Count(of)
		case http.StateIdle:
			c.requests.answered()
		}
	}
	Turns(of, state)
}

// Turns is the ConnState of an http.Server of HTTP/1 that gives other connections their turn after each
// answer: a client that sends requests without waiting for answers would have the processor for
// 10 ms at a time.
func Turns(_ net.Conn, state http.ConnState) {
	if state == http.StateIdle {
		runtime.Gosched()
	}
}

// Count has the bytes that come on of count until it is closed, or a State says that they
// are answered.
func Count(of net.Conn) {
	if c := within(of); c != nil {
		c.plain.Store(true)
	}
}

// within is the connection of a Listener that c is made of; nil if there is none.
func within(c net.Conn) *conn {
	for {
		switch of := c.(type) {
		case *conn:
			return of
		case interface{ NetConn() net.Conn }:
			c = of.NetConn()
		default:
			return nil
		}
	}
}

// begin has r count the requests of a connection that has sent nothing yet.
func (r *requests) begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.in.skip, r.heard, r.spare = prefaceLength, now, spareAtFirst
	r.open = make(map[uint32]request)
}

// calls is how many requests over HTTP/2 have not been answered.
func (r *requests) calls() int {
	r.mu.Lock()
	defer r.mu.Unlock()

	return len(r.open)
}

// inspected is a connection of HTTP/2 under Limits.
type inspected struct {
	net.Conn

	of *conn
}

// Read implements io.Reader.
func (c *inspected) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.of.check(p[:n]) {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements io.Writer.
func (c *inspected) Write(p []byte) (int, error) {
	if c.of.tooManyResets(c.of.requests.sent(p)) {
		c.of.bound(true)
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// Read implements io.Reader.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && c.plain.Load() {
		c.bound(c.requests.hold(int64(n)) > c.listener.limits.Bytes)
	}
	return n, err
}

// check notes what came, and closes what breaks the limits. It reports whether that is c.
func (c *conn) check(p []byte) bool {
	l := c.listener.limits
	now := time.Now()
	bytes, unfinished, resets, idle := c.requests.arrived(p, now)
	tooIdle := idle > 0 && c.listener.held.idle.add(c.peer, idle, l.Frames, now)
	return c.bound(bytes > l.Bytes || unfinished > l.Unfinished || c.tooManyResets(resets) || tooIdle)
}

// tooManyResets notes that n requests were reset, and reports whether that breaks the limit.
func (c *conn) tooManyResets(n int) bool {
	return n > 0 && c.listener.held.resets.add(c.peer, n, c.listener.limits.Resets, time.Now())
}

// bound closes c if it breaks a limit, which it reports, or those that do if all together
// break one.
func (c *conn) bound(breaks bool) bool {
	l := c.listener
	switch {
	case breaks:
		l.limited.Inc(1)
		_ = c.Close()
	case l.held.bytes.Load() > l.limits.TotalBytes:
		l.relieve(&l.held.bytes, l.limits.TotalBytes, func(r *requests) int64 { bytes, _ := r.held(); return bytes })
	case l.held.more.Load() > l.limits.MoreCalls:
		l.relieve(&l.held.more, l.limits.MoreCalls, func(r *requests) int64 { _, more := r.held(); return more })
	}
	return breaks
}

// relieve closes connections of the peer that holds most, until another one holds more,
// and so on, until total is three quarters of what it may be.
func (l *Listener) relieve(total *atomic.Int64, most int64, held func(*requests) int64) {
	type holder struct {
		conn *conn
		held int64
		rank int64 // what its peer holds with it and with those that hold less
	}
	byPeer := make(map[netip.Prefix][]holder)
	l.mu.Lock()
	for c := range l.conns {
		if n := held(&c.requests); n > 0 {
			byPeer[c.peer] = append(byPeer[c.peer], holder{conn: c, held: n})
		}
	}
	l.mu.Unlock()
	var all []holder
	for _, of := range byPeer {
		slices.SortFunc(of, func(a, b holder) int { return cmp.Compare(a.held, b.held) })
		sum := int64(0)
		for i := range of {
			sum += of[i].held
			of[i].rank = sum
		}
		all = append(all, of...)
	}
	slices.SortFunc(all, func(a, b holder) int { return cmp.Compare(b.rank, a.rank) })
	least := most / 4 * 3
	for _, h := range all {
		// A peer within its even part loses nothing: if total is not less by now, others have
		// connected since.
		if total.Load() <= least || h.rank <= least/int64(len(byPeer)) {
			return
		}
		l.limited.Inc(1)
		_ = h.conn.Close()
	}
}
