// SPDX-License-Identifier: Apache-2.0

package rpcyarpc_test

import (
	"context"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc/rpcyarpc"
)

// A Client whose peer loses its power is not left with a connection that looks alive.
func TestTheKernelClosesConnectionsToPeersThatAreGone(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled := make(chan net.Conn, 10)
	c, err := rpcyarpc.NewClient(rpcyarpc.ClientOptions{Dial: func(ctx context.Context, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			dialled <- conn
		}
		return conn, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	peer, err := c.Peer(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = peer.Update(ctx, "host", new(anypb.Any)) // the listener does not answer
	}()
	conn := <-dialled
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "the kernel knows how long to wait for the peer", func() bool {
		var ms int
		_ = raw.Control(func(fd uintptr) { ms, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT) })
		return ms == 5000
	})
	cancel()
	<-ended
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
