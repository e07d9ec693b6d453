// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"io"
	"net"
	"strings"
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

var tight = Limits{Unfinished: 3, Bytes: 100, TotalBytes: 150, Resets: 60, Receive: 10 * time.Second, Idle: time.Minute}

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
		{"many without a body", func(c net.Conn) {
			for i := range byte(50) {
				frame(c, frameHeaders, flagEndStream, 2*i+1, 5)
			}
		}, false},
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
				if closed() && l.held.Load() != 0 {
					t.Errorf("%d bytes are held by nobody", l.held.Load())
				}
			})
		})
	}
}

// A request that the server ends is over, although the client never says so.
func TestAServerEndsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := Track(&piped{conns: make(chan net.Conn)}, 10)
		l.Limit(tight)
		defer l.CloseAll()
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
		l := Track(&piped{conns: make(chan net.Conn)}, 10)
		l.Limit(tight)
		defer l.CloseAll()
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
		if got := l.held.Load(); got != 80 {
			t.Errorf("%d bytes are held, want 80", got)
		}
	})
}
