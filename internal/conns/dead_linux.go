// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// closeUnacknowledged has the kernel close c when what was sent is not acknowledged
// within the given time.
func closeUnacknowledged(c *net.TCPConn, within time.Duration) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(within.Milliseconds()))
	})
}
