// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy passes bytes on to a server, and the answers late, or never. Safe for
// concurrent use.
type proxy struct {
	// address is where it listens.
	address string

	to    string
	delay atomic.Int64
	loses atomic.Pointer[string]
	done  chan struct{}

	mu    sync.Mutex // protects following fields
	conns map[net.Conn]bool
	ended bool

	pipes sync.WaitGroup
}

// startProxy starts a proxy to address. It ends with the test.
func startProxy(t testing.TB, address string) *proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: l.Addr().String(), to: address, done: make(chan struct{}), conns: make(map[net.Conn]bool)}
	p.pipes.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.pipes.Go(func() { p.connect(c) })
		}
	})
	t.Cleanup(func() {
		close(p.done)
		_ = l.Close()
		p.mu.Lock()
		p.ended = true
		for c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		p.pipes.Wait()
	})
	return p
}

// setDelay sets how late what the server answers from now on arrives.
func (p *proxy) setDelay(d time.Duration) { p.delay.Store(int64(d)) }

// setLosing ends connections from now on when the server answers a request with
// this text in it, in lower case. Empty: none.
func (p *proxy) setLosing(request string) { p.loses.Store(&request) }

func (p *proxy) connect(client net.Conn) {
	defer p.closing(client)()
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.to)
	if err != nil {
		return
	}
	defer p.closing(server)()
	var lose atomic.Bool
	p.pipes.Go(func() {
		defer client.Close()
		p.pipe(client, server, func([]byte) bool {
			if d := time.Duration(p.delay.Load()); d > 0 {
				select {
				case <-time.After(d):
				case <-p.done:
					return false
				}
			}
			return !lose.Load()
		})
	})
	p.pipe(server, client, func(request []byte) bool {
		text := p.loses.Load()
		lose.Store(text != nil && *text != "" && bytes.Contains(bytes.ToLower(request), []byte(*text)))
		return true
	})
}

// closing has c closed at the end of the test, or by what it returns.
func (p *proxy) closing(c net.Conn) func() {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.conns[c] = true
	if p.ended {
		_ = c.Close()
	}
	return func() {
		_ = c.Close()
		p.mu.Lock()
		defer p.mu.Unlock()

		delete(p.conns, c)
	}
}

// pipe copies from one end to the other what pass lets through, until it lets
// something through no more.
func (p *proxy) pipe(to, from net.Conn, pass func([]byte) bool) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !pass(buffer[:n]) {
			return
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}
