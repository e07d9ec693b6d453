// SPDX-License-Identifier: Apache-2.0

package access

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// uidOf is the user of the process at the other end of a Unix socket; nil if the system
// does not tell.
func uidOf(conn net.Conn) (uid *uint32) {
	for {
		if c, ok := conn.(syscall.Conn); ok {
			raw, err := c.SyscallConn()
			if err != nil {
				return nil
			}
			_ = raw.Control(func(fd uintptr) {
				if at, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
					uid = &at.Uid
				}
			})
			return uid
		}
		within, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return nil
		}
		conn = within.NetConn()
	}
}
