// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/conns"
)

// preface is what a connection of HTTP/2 begins with, which is what gRPC
// speaks; no method of HTTP/1 begins so.
const preface = "PRI"

// splitter sorts the connections of one listener by what they speak. Use
// split.
type splitter struct {
	from       *conns.Listener
	grpc, http *half

	closing sync.Once
	closed  chan struct{}
	loops   sync.WaitGroup
}

// half is a listener of those connections that speak one protocol. Closing
// one closes both.
type half struct {
	of    *splitter
	conns chan net.Conn
}

// split returns a splitter of what l accepts. It ends when one of its halves
// is closed.
func split(l *conns.Listener) *splitter {
	s := &splitter{from: l, closed: make(chan struct{})}
	s.grpc = &half{s, make(chan net.Conn)}
	s.http = &half{s, make(chan net.Conn)}
	s.loops.Go(s.accept)
	return s
}

func (s *splitter) accept() {
	var pause time.Duration
	for {
		conn, err := s.from.Accept()
		switch {
		case err == nil:
			pause = 0
			s.loops.Go(func() { s.sort(conn) })
		case passes(err) && s.rest(&pause):
		default:
			_ = s.close()
			return
		}
	}
}

// passes reports whether err is over when some connections are, as that too many
// files are open.
func passes(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// rest waits for longer each time, up to a second; false: s is closed.
func (s *splitter) rest(pause *time.Duration) bool {
	*pause = min(max(2**pause, 5*time.Millisecond), time.Second)
	timer := time.NewTimer(*pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.closed:
		return false
	}
}

// sort hands conn to one half, if it says what it is in good time.
func (s *splitter) sort(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(greeting))
	begun := make([]byte, 0, len(preface))
	to := s.grpc
	for len(begun) < len(preface) {
		n, err := conn.Read(begun[len(begun):cap(begun)])
		begun = begun[:len(begun)+n]
		if string(begun) != preface[:len(begun)] {
			to = s.http
			break
		}
		if err != nil && len(begun) < len(preface) {
			_ = conn.Close()
			return
		}
	}
	_ = conn.SetReadDeadline(time.Time{})
	select {
	case to.conns <- &begunConn{conn, begun}:
	case <-s.closed:
		_ = conn.Close()
	}
}

// close ends all but connections. stop ends those too.
func (s *splitter) close() error {
	var err error
	s.closing.Do(func() {
		close(s.closed)
		err = s.from.Close()
	})
	return err
}

// stop ends s and all its connections, and returns when nothing of it runs.
func (s *splitter) stop() {
	_ = s.close()
	s.from.CloseAll()
	s.loops.Wait()
}

// Accept implements net.Listener.
func (h *half) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.of.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *half) Close() error { return h.of.close() }

// Addr implements net.Listener.
func (h *half) Addr() net.Addr { return h.of.from.Addr() }

// begunConn is a connection whose first bytes were read.
type begunConn struct {
	net.Conn

	begun []byte
}

// NetConn returns the connection that c was made of.
func (c *begunConn) NetConn() net.Conn { return c.Conn }

// Read implements io.Reader.
func (c *begunConn) Read(p []byte) (int, error) {
	if len(c.begun) > 0 {
		n := copy(p, c.begun)
		c.begun = c.begun[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

var _ io.Reader = (*begunConn)(nil)
