// SPDX-License-Identifier: Apache-2.0

package headgate_test

import (
	"errors"
	"net"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig/memory"
)

// Limits that the service sets between New and Start are in force, also if the source reports the
// same limits later.
func TestLimitsThatAreSetBeforeStartAreInForce(t *testing.T) {
	t.Parallel()
	l := listen(t)
	source := memory.New(limits(t, `limits: [{key: k, limit: 1/h, burst: 5}]`))
	n, err := headgate.New(headgate.Config{Address: l.Addr().String()}, source, membersAt(t, l), quiet, headgate.WithListen(l))
	if err != nil {
		t.Fatal(err)
	}
	next := limits(t, `limits: [{key: k, limit: 1/h, burst: 1}]`)
	source.Set(next)
	if err := errors.Join(n.Limits().Set(next), n.Start(t.Context())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new burst is in force", func() bool { return n.For("k").Rule().Burst == 1 })
	if err := n.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A service that ends before it has started its Node leaves no port in use.
func TestStopWithoutStartClosesTheListener(t *testing.T) {
	t.Parallel()
	l := listen(t)
	n, err := headgate.New(headgate.Config{Address: l.Addr().String()}, memory.New(limits(t, fast)), membersAt(t, l), quiet, headgate.WithListen(l))
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener was open: %v", err)
	}
}
