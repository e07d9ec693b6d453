// SPDX-License-Identifier: Apache-2.0

package rpcyarpc_test

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc/rpcyarpc"
)

// Connections that say nothing do not take all of a process's files, and make
// room again when they end.
func TestConnectionsAreBounded(t *testing.T) {
	s, l := serve(t, "127.0.0.1:0", echo, rpcyarpc.ServerOptions{MaxConnections: 2})
	dial := func() net.Conn {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	first := dial()
	dial()
	waittest.Until(t, "two are accepted", func() bool { return l.accepted.Load() == 2 })
	tooMany := dial()
	if err := tooMany.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := tooMany.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) && !isReset(err) {
		t.Errorf("one too many reads %d bytes, %v", n, err)
	}
	_ = first.Close()
	c := newClient(t, rpcyarpc.ClientOptions{})
	payload := &anypb.Any{TypeUrl: "x/y.Z"}
	waittest.Until(t, "there is room again", func() bool {
		_, err := call(t, c, s.Addr().String(), payload, time.Second)
		return err == nil
	})
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}
