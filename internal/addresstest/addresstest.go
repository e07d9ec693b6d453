// SPDX-License-Identifier: Apache-2.0

// Package addresstest finds addresses for servers that a test starts later, or starts again.
//
//	at := addresstest.Free(t, 2)
//
// A port of 127.0.0.1 that is free now is no such address: the system may give it to another
// test before the server listens there, and while the server is down.
//
//	port := addresstest.Port(t) // of a server of another project, which listens at 127.0.0.1
//
// The package knows no server.
package addresstest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// Free returns n addresses, host:port, that are different, and that no other process takes before
// their servers listen: they are of a loopback address that no other test has. A system that has
// one loopback address only has ports of that.
func Free(t testing.TB, n int) (free []string) {
	t.Helper()
	var listening net.ListenConfig
	own := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	if l, err := listening.Listen(t.Context(), "tcp", own); err != nil {
		own = "127.0.0.1:0"
	} else if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for range n {
		l, err := listening.Listen(t.Context(), "tcp", own)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		free = append(free, l.Addr().String())
	}
	return free
}

// Port returns a port of 127.0.0.1 that is free, as is the one 10000 above, where servers such as etcd
// and Redis talk to each other. The system gives neither of them to those who ask for any port.
func Port(t testing.TB) int {
	t.Helper()
	for range 100 {
		if port := 10000 + rand.IntN(12000); isFree(t, port) && isFree(t, port+10000) {
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

func isFree(t testing.TB, port int) bool {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	return err == nil && l.Close() == nil
}
