// SPDX-License-Identifier: Apache-2.0

package rpcyarpc_test

import (
	"strings"
	"testing"

	"go.uber.org/yarpc"

	"github.com/headgate/headgate/rpc/rpcyarpc"
)

// The errors for arguments that are nil say what to give instead.
func TestWhatIsNilIsRefused(t *testing.T) {
	if _, err := rpcyarpc.OnDispatcher(nil, "headgate", nil, nil); err == nil || !strings.Contains(err.Error(), "give the service's own") {
		t.Errorf("no dispatcher: %v", err)
	}
	d := yarpc.NewDispatcher(yarpc.Config{Name: "orders"})
	if _, err := rpcyarpc.OnDispatcher(d, "headgate", nil, nil); err == nil || !strings.Contains(err.Error(), `no unary outbound "headgate"`) {
		t.Errorf("no outbound: %v", err)
	}
	if err := (&rpcyarpc.Standalone{Address: "127.0.0.1:0"}).Start(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "the decider is nil") {
		t.Errorf("no decider: %v", err)
	}
}

// A negative bound is as none: all connections would be closed.
func TestANegativeBoundIsTheDefault(t *testing.T) {
	s, _ := serve(t, "127.0.0.1:0", echo, rpcyarpc.ServerOptions{MaxConnections: -1})
	c := newClient(t, rpcyarpc.ClientOptions{})
	if _, err := call(t, c, s.Addr().String(), word(t, "hello"), patience); err != nil {
		t.Error(err)
	}
}
