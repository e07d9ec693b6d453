// SPDX-License-Identifier: Apache-2.0

package conns_test

import (
	"io"
	"net"
	"testing"

	"github.com/headgate/headgate/internal/conns"
)

func listen(t *testing.T, most int) *conns.Listener {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return conns.Track(l, most)
}

func dial(t *testing.T, l *conns.Listener) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func accept(t *testing.T, l *conns.Listener) net.Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ended waits until the other side has closed c.
func ended(t *testing.T, c net.Conn) {
	t.Helper()
	if n, err := io.Copy(io.Discard, c); n != 0 {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

func TestOneTooManyIsClosedAndMakesWayForTheNext(t *testing.T) {
	l := listen(t, 1)
	dial(t, l)
	first := accept(t, l)

	tooMany := dial(t, l)
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := l.Accept()
		accepted <- c
	}()
	ended(t, tooMany)
	if got := l.Refused(); got != 1 {
		t.Errorf("%d refused, not 1", got)
	}

	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	dial(t, l)
	c := <-accepted
	if c == nil {
		t.Fatal("no room after one has left")
	}
	_ = c.Close()
}

func TestCloseAllClosesWhatIsOpenAndWhatStillComes(t *testing.T) {
	l := listen(t, 0)
	open := dial(t, l)
	accept(t, l)
	l.CloseAll()
	ended(t, open)

	late := dial(t, l)
	over := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		over <- err
	}()
	ended(t, late)
	_ = l.Close()
	if err := <-over; err == nil {
		t.Error("a connection was accepted after all were closed")
	}
}
