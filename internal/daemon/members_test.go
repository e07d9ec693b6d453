// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net"
	"testing"
)

func TestTheEdgeAddressIsOneThatProgramsCanDial(t *testing.T) {
	for _, tc := range []struct{ stated, at, address, want string }{
		{"", "10.0.0.7:7934", "10.0.0.7:7933", "10.0.0.7:7934"},
		{"", "[::]:7934", "10.0.0.7:7933", "10.0.0.7:7934"},
		{"", "0.0.0.0:7934", "[fe80::1]:7933", "[fe80::1]:7934"},
		{"edge.example:443", "[::]:7934", "10.0.0.7:7933", "edge.example:443"},
	} {
		at, err := net.ResolveTCPAddr("tcp", tc.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Config{EdgeAddress: tc.stated}).edgeAddress(at, tc.address); got != tc.want {
			t.Errorf("%s: %s, want %s", fmt.Sprint(tc), got, tc.want)
		}
	}
}
