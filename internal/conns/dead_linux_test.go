// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A host that loses its power closes no connection: the kernel is told to.
func TestConnectionsToHostsThatAreGoneAreClosed(t *testing.T) {
	at, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Track(at, 0)
	defer l.Close()
	calling, err := new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer calling.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()

	raw, err := accepted.(*conn).Conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []struct {
		name                string
		level, option, want int
	}{
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE in s", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 10},
		{"TCP_KEEPINTVL in s", unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
		{"TCP_KEEPCNT", unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 1},
		{"TCP_USER_TIMEOUT in ms", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 5000},
	} {
		var got int
		var optErr error
		if err := raw.Control(func(fd uintptr) { got, optErr = unix.GetsockoptInt(int(fd), o.level, o.option) }); err != nil || optErr != nil {
			t.Fatal(o.name, err, optErr)
		}
		if got != o.want {
			t.Errorf("%s is %d, want %d", o.name, got, o.want)
		}
	}
}
