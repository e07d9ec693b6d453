// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package conns

import (
	"net"
	"time"
)

// closeUnacknowledged does nothing: no other system has such a setting for one connection.
func closeUnacknowledged(*net.TCPConn, time.Duration) {}
