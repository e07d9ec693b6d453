// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"net"
	"time"
)

// A host that has crashed, or that the network no longer reaches, closes no connection. The kernel
// probes a connection on which nothing has arrived for quietAfter, and closes it if no answer
// comes within answerWithin, or if what was sent is not acknowledged within answerWithin. Pings
// of gRPC find such connections too, but compare wall clocks: after the clock is set back, they
// close connections that live.
const (
	quietAfter   = 10 * time.Second
	answerWithin = 5 * time.Second
)

// CloseDead has the kernel close c when the host at its other end is gone. A c that is no
// TCP connection is left as it is. Other systems than Linux bound only the probes.
func CloseDead(c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	// Both calls fail only for a connection that is closed.
	_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: quietAfter, Interval: answerWithin, Count: 1})
	closeUnacknowledged(t, answerWithin)
}
