// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// piped is a listener of pipes.
type piped struct {
	net.Listener

	conns chan net.Conn
}

func (l *piped) Accept() (net.Conn, error) { return <-l.conns, nil }

// limited is a listener of a few connections under tight limits. It ends with the test.
func limited(t *testing.T) *Listener {
	l := Track(&piped{conns: make(chan net.Conn)}, 10)
	l.Limit(tight)
	t.Cleanup(l.CloseAll)
	return l
}

// inspect returns a client's end of a connection whose server's end l inspects, and
// whether that end has been closed.
func inspect(t *testing.T, l *Listener) (client net.Conn, closed func() bool) {
	t.Helper()
	client, server := net.Pipe()
	go func() { l.Listener.(*piped).conns <- server }()
	raw, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	c := Inspect(raw, raw)
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, c)
	}()
	t.Cleanup(func() {
		_ = client.Close()
		<-over
	})
	_, _ = io.WriteString(client, strings.Repeat("p", prefaceLength))
	return client, func() bool {
		synctest.Wait()
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
}

// frame sends a frame with n bytes.
func frame(c net.Conn, kind, flags, stream byte, n int) {
	_, _ = c.Write(append([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, 0, stream}, make([]byte, n)...))
}

var tight = Limits{Unfinished: 3, Bytes: 100, TotalBytes: 150, MoreCalls: 4, Resets: 60, Frames: 50, Receive: 10 * time.Second, Idle: time.Minute}

func TestLimitsOfUnfinishedRequests(t *testing.T) {
	for _, tc := range []struct {
		name   string
		send   func(c net.Conn)
		closed bool
	}{
		{"many that end", func(c net.Conn) {
			for range 50 {
				frame(c, frameHeaders, 0, 1, 5)
				frame(c, frameData, flagEndStream, 1, 60)
			}
		}, false},
		{"some at once, without a body", func(c net.Conn) {
			for i := range byte(5) {
				frame(c, frameHeaders, flagEndStream, 2*i+1, 5)
			}
			time.Sleep(12 * time.Second)
		}, false},
		{"too many at once, without a body", func(c net.Conn) {
			for i := range byte(6) {
				frame(c, frameHeaders, flagEndStream, 2*i+1, 5)
			}
		}, true},
		{"too many bytes of headers", func(c net.Conn) {
			frame(c, frameHeaders, 0, 1, 60)
			frame(c, frameContinuation, 0, 1, 60)
		}, true},
		{"many that the client ends", func(c net.Conn) {
			for range 50 {
				frame(c, frameHeaders, 0, 1, 5)
				frame(c, frameData, 0, 1, 60)
				frame(c, frameReset, 0, 1, 4)
			}
		}, false},
		{"too many that the client ends", func(c net.Conn) {
			for range 61 {
				frame(c, frameHeaders, 0, 1, 5)
				frame(c, frameReset, 0, 1, 4)
			}
		}, true},
		{"too many", func(c net.Conn) {
			for i := range byte(4) {
				frame(c, frameHeaders, 0, 2*i+1, 5)
			}
		}, true},
		{"too many bytes", func(c net.Conn) {
			for i := range byte(2) {
				frame(c, frameHeaders, 0, 2*i+1, 5)
				frame(c, frameData, 0, 2*i+1, 60)
			}
		}, true},
		{"slow, a byte at a time", func(c net.Conn) {
			frame(c, frameHeaders, 0, 1, 5)
			for range 12 {
				time.Sleep(time.Second)
				frame(c, frameData, 0, 1, 1)
			}
		}, true},
		{"silent with a request", func(c net.Conn) {
			frame(c, frameHeaders, 0, 1, 5)
			time.Sleep(12 * time.Second)
		}, true},
		{"without requests", func(net.Conn) { time.Sleep(50 * time.Second) }, false},
		{"idle", func(net.Conn) { time.Sleep(62 * time.Second) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := Track(&piped{conns: make(chan net.Conn)}, 10)
				l.Limit(tight)
				defer l.CloseAll()
				c, closed := inspect(t, l)
				tc.send(c)
				if closed() != tc.closed {
					t.Errorf("closed: %v, want %v", !tc.closed, tc.closed)
				}
				if closed() && (l.held.bytes.Load() != 0 || l.held.more.Load() != 0) {
					t.Errorf("%d bytes and %d calls are held by nobody", l.held.bytes.Load(), l.held.more.Load())
				}
			})
		})
	}
}

// The server's answer ends a call, and no frame before the last does.
func TestAnAnswerEndsACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limited(t)
		c, closed := inspect(t, l)
		go func() { _, _ = io.Copy(io.Discard, c) }()
		for i := range byte(50) {
			frame(c, frameHeaders, 0, 2*i+1, 5)
			frame(c, frameData, flagEndStream, 2*i+1, 5)
			if i < 3 {
				continue // four at once are open from then on
			}
			synctest.Wait()
			for server := range l.conns {
				frame(&inspected{server.Conn, server}, frameHeaders, 0, 2*i+1, 4)
				frame(&inspected{server.Conn, server}, frameData, 0, 2*i+1, 4)
				frame(&inspected{server.Conn, server}, frameHeaders, flagEndStream, 2*i+1, 4)
			}
		}
		if closed() || l.held.more.Load() != 2 || l.held.bytes.Load() != 0 {
			t.Errorf("closed: %v; %d calls and %d bytes are held", closed(), l.held.more.Load(), l.held.bytes.Load())
		}
	})
}

// The peer that holds most loses what it holds most with, until another one holds more.
func TestAPeerWithManyConnectionsMakesRoomForOthers(t *testing.T) {
	l := Track(&coming{}, 20)
	l.Limit(Limits{Unfinished: 1000, Bytes: 1000, TotalBytes: 199, MoreCalls: 100, Resets: 1000, Frames: 1000, Receive: time.Minute, Idle: time.Minute})
	addresses := []string{"192.0.2.1"}
	for range 10 {
		addresses = append(addresses, "192.0.2.2")
	}
	acceptAll(t, l, addresses...)
	var one, last *conn
	for c := range l.conns {
		c.requests.begin(time.Now())
		n := byte(10) // of each of many
		if c.Conn.(*from).address == "192.0.2.1" {
			n, one = 70, c
		} else {
			last = c
		}
		c.requests.in.skip = 0
		c.check(append([]byte{0, 0, n, frameHeaders, 0, 0, 0, 0, 1}, make([]byte, n)...))
	}
	last.check([]byte{0, 0, 30, frameData, 0, 0, 0, 0, 1})
	if one.Conn.(*from).closed || l.held.bytes.Load() > 199/4*3 {
		t.Errorf("the one of another peer is closed: %v; %d bytes are held", one.Conn.(*from).closed, l.held.bytes.Load())
	}
}

// wire is a connection that sends what it is told.
type wire struct {
	net.Conn

	sends int
}

func (w *wire) Read(p []byte) (int, error) { return min(w.sends, len(p)), nil }
func (*wire) RemoteAddr() net.Addr         { return &net.UnixAddr{} }
func (*wire) Close() error                 { return nil }

// With HTTP/1, what a connection has sent counts until it is answered.
func TestBytesOfHTTP1Count(t *testing.T) {
	l := Track(&piped{conns: make(chan net.Conn, 3)}, 10)
	l.Limit(tight)
	var all [3]net.Conn
	for i := range all {
		l.Listener.(*piped).conns <- &wire{sends: 30 + i}
		var err error
		if all[i], err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		State(tls.Server(all[i], nil), http.StateNew)
	}
	read := func(i int) int64 {
		_, _ = all[i].Read(make([]byte, 100))
		return l.held.bytes.Load()
	}
	for range 50 {
		State(all[0], http.StateActive)
		if held := read(0); held != 30 {
			t.Fatalf("%d bytes are held", held)
		}
		State(all[0], http.StateIdle)
	}
	for i := range all {
		read(i)
	}
	if held := read(0); held != 123 || len(l.conns) != 3 { // 60, 31 and 32
		t.Errorf("%d bytes are held by %d connections", held, len(l.conns))
	}
	State(all[0], http.StateIdle)
	if Hold(all[0], 20); l.held.bytes.Load() != 83 {
		t.Errorf("%d bytes are held", l.held.bytes.Load())
	}
	Hold(all[0], 40)
	if held := read(1); held != 92 || len(l.conns) != 2 { // 154 are too many: the one with 62 is closed
		t.Errorf("%d bytes are held by %d connections", held, len(l.conns))
	}
}

// A large answer counts until the client has taken it, whatever small ones it takes.
func TestWhatAClientDoesNotTakeCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Track(&piped{conns: make(chan net.Conn)}, 10)
		limits := tight
		limits.Bytes, limits.TotalBytes = 100<<10, 200<<10
		l.Limit(limits)
		defer l.CloseAll()
		c, closed := inspect(t, l)
		go func() { _, _ = io.Copy(io.Discard, c) }()
		var server *inspected
		for of := range l.conns {
			server = &inspected{of.Conn, of}
		}
		answer := func(stream byte, last byte, n int) {
			frame(c, frameHeaders, flagEndStream, stream, 5)
			synctest.Wait()
			frame(server, frameData, 0, stream, n)
			frame(server, frameHeaders, last, stream, 5)
		}
		Owe(server.RemoteAddr(), 60<<10)
		for i := range byte(9) {
			answer(2*i+1, flagEndStream, LargeAnswer)
		}
		answer(101, 0, LargeAnswer)
		if held := l.held.bytes.Load(); held != 60<<10 {
			t.Errorf("%d bytes are held before any of it is sent", held)
		}
		frame(server, frameData, 0, 101, 1<<10)
		frame(server, frameData, 0, 101, 2<<10)
		if held := l.held.bytes.Load(); held != 60<<10-LargeAnswer-3<<10 {
			t.Errorf("%d bytes are held after %d", held, LargeAnswer+3<<10)
		}
		frame(server, frameData, flagEndStream, 101, 1<<20)
		if held := l.held.bytes.Load(); held != 0 || closed() {
			t.Errorf("%d bytes are held in the end; closed: %v", held, closed())
		}
		Owe(server.RemoteAddr(), 60<<10)
		time.Sleep(9 * time.Second)
		answer(103, 0, 2*LargeAnswer)
		time.Sleep(9 * time.Second)
		if closed() {
			t.Error("a client that takes a part now and then is closed")
		}
		if time.Sleep(3 * time.Second); !closed() {
			t.Error("a client that takes nothing is not closed")
		}
	})
}

// A client that takes no large answers may have few.
func TestLargeAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Track(&piped{conns: make(chan net.Conn)}, 10)
		limits := tight
		limits.Bytes, limits.TotalBytes = 100<<10, 200<<10
		l.Limit(limits)
		defer l.CloseAll()
		_, closed := inspect(t, l)
		var server *inspected
		for of := range l.conns {
			server = &inspected{of.Conn, of}
		}
		if Owe(server.RemoteAddr(), 60<<10); closed() {
			t.Error("one answer is too many")
		}
		Owe(server.RemoteAddr(), 60<<10)
		if held := l.held.bytes.Load(); held != 0 || !closed() {
			t.Errorf("%d bytes are held by nobody; closed: %v", held, closed())
		}
	})
}

// A request that the server ends is over, although the client never says so.
func TestAServerEndsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limited(t)
		c, closed := inspect(t, l)
		go func() { _, _ = io.Copy(io.Discard, c) }()
		frame(c, frameHeaders, 0, 1, 5)
		synctest.Wait()
		for server := range l.conns {
			frame(&inspected{server.Conn, server}, frameReset, 0, 1, 4)
		}
		time.Sleep(20 * time.Second)
		if closed() {
			t.Error("the connection was closed")
		}
	})
}

func TestWhoHoldsMostMakesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limited(t)
		var all []func() bool
		for _, n := range []int{80, 50, 30} { // 150 may be held
			c, closed := inspect(t, l)
			all = append(all, closed)
			frame(c, frameHeaders, 0, 1, 5)
			frame(c, frameData, 0, 1, n)
		}
		if !all[0]() || all[1]() || all[2]() {
			t.Error("not the largest alone was closed")
		}
		if got := l.held.bytes.Load(); got != 90 {
			t.Errorf("%d bytes are held, want 90", got)
		}
	})
}

// While connections of one peer are closed, more of its connections may come. Those of a peer
// that holds little stay open.
func TestAPeerThatHoldsLittleLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limited(t)
		closed := make(map[int]func() bool)
		for _, bytes := range []int{60, 10} {
			var c net.Conn
			c, closed[bytes] = inspect(t, l)
			frame(c, frameHeaders, 0, 1, 5)
			frame(c, frameData, 0, 1, bytes)
		}
		synctest.Wait()
		held := func(r *requests) int64 { bytes, _ := r.held(); return bytes }
		for c := range l.conns {
			c.peer = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(held(&c.requests))}), 32)
		}
		var total atomic.Int64 // as if as much came anew as was closed
		total.Store(1000)
		l.relieve(&total, 100, held)
		if !closed[60]() || closed[10]() {
			t.Errorf("closed: %v with 60 bytes, %v with 10", closed[60](), closed[10]())
		}
	})
}
