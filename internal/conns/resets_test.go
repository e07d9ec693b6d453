// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// A client spreads its resets over connections, and opens more of them.
func TestResetsOverAllConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limited(t)
		honest, honestClosed := inspect(t, l)
		reset := func() (closed bool) {
			c, over := inspect(t, l)
			for range 31 { // 60 are bearable
				frame(c, frameHeaders, 0, 1, 5)
				frame(c, frameReset, 0, 1, 4)
			}
			return over()
		}
		if reset() || !reset() || !reset() {
			t.Error("not the second and the third connection were closed")
		}
		frame(honest, frameHeaders, flagEndStream, 1, 5)
		frame(honest, frameReset, 0, 99, 4) // of a request that has ended
		if honestClosed() {
			t.Error("a connection on which no request was reset was closed")
		}
		time.Sleep(resetsWithin)
		if reset() {
			t.Error("a connection was closed for what was reset before")
		}
	})
}

// A server resets a request because of what its client sent, and may still work on it.
func TestAServersResetsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limited(t)
		c, closed := inspect(t, l)
		go func() { _, _ = io.Copy(io.Discard, c) }()
		for i := range byte(61) {
			if closed() {
				t.Fatalf("closed after %d resets", i)
			}
			frame(c, frameHeaders, flagEndStream, 2*i+1, 5)
			synctest.Wait()
			for server := range l.conns {
				frame(&inspected{server.Conn, server}, frameReset, 0, 2*i+1, 4)
			}
		}
		if !closed() {
			t.Error("the connection is open")
		}
	})
}

// Frames that do nothing are bounded beyond those that each call, and each frame of an answer, may need: a connection on
// which they never end keeps a processor from others for as long as the scheduler lets it.
func TestFramesThatDoNothingAreBounded(t *testing.T) {
	const ping, priority, settings, window = 6, 2, 4, 8
	for name, send := range map[string]func(c net.Conn){
		"pings":               func(c net.Conn) { frame(c, ping, 0, 0, 8) },
		"priorities":          func(c net.Conn) { frame(c, priority, 0, 7, 5) },
		"settings":            func(c net.Conn) { frame(c, settings, 0, 0, 6) },
		"windows":             func(c net.Conn) { frame(c, window, 0, 0, 4) },
		"empty data":          func(c net.Conn) { frame(c, frameData, 0, 9, 0) },
		"empty continuations": func(c net.Conn) { frame(c, frameContinuation, 0, 9, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limited(t)
				c, closed := inspect(t, l)
				for range spareAtFirst + tight.Frames {
					send(c)
				}
				if closed() {
					t.Fatal("too early")
				}
				if send(c); !closed() {
					t.Error("the connection is open")
				}
				time.Sleep(resetsWithin)
				c, closed = inspect(t, l)
				for range 1000 { // calls, of which each needs some
					for range sparePerCall {
						send(c)
					}
					frame(c, frameHeaders, flagEndStream, 1, 5)
					frame(c, frameReset, 0, 99, 4)
				}
				if closed() {
					t.Error("a connection with calls is closed")
				}
			})
		})
	}
}

// A client that takes a large answer says for each of its frames that it has room for more.
func TestALargeAnswerNeedsFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limited(t)
		c, closed := inspect(t, l)
		go func() { _, _ = io.Copy(io.Discard, c) }()
		frame(c, frameHeaders, flagEndStream, 1, 5)
		synctest.Wait()
		for server := range l.conns {
			for range 500 {
				frame(&inspected{server.Conn, server}, frameData, 0, 1, 10)
			}
		}
		for range 500 * sparePerFrame {
			frame(c, 8, 0, 1, 4)
		}
		if closed() {
			t.Error("the connection is closed")
		}
	})
}

func TestResetsOfOthersCloseNothing(t *testing.T) {
	var r resets
	peer := func(i byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, i}), 32) }
	for i, tc := range []struct {
		peer    byte
		n, most int
		broken  bool
	}{
		{1, 50, 60, false},
		{2, 10, 60, false},
		{2, 10, 60, false}, // 70, of which 20 are less than 30
		{1, 1, 60, true},
		{3, 20, 60, false}, // even parts are 20 by now
		{3, 1, 60, true},
		{2, 1, 60, true},
	} {
		if broken := r.add(peer(tc.peer), tc.n, tc.most, time.Time{}); broken != tc.broken {
			t.Errorf("%d: %v, want %v", i, broken, tc.broken)
		}
	}
	var few resets
	if few.add(peer(1), 10, 60, time.Time{}) || few.add(peer(2), 40, 60, time.Time{}) {
		t.Error("50 resets are too many where 60 are bearable")
	}
}
