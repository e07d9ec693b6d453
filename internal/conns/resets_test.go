// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"io"
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
