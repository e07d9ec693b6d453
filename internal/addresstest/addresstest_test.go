// SPDX-License-Identifier: Apache-2.0

package addresstest_test

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/headgate/headgate/internal/addresstest"
)

// The system gives ports of 127.0.0.1 to all who ask for any. Addresses that it could give away are
// not free for a test.
func TestNoOtherTestTakesFreeAddresses(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems may have one loopback address only")
	}
	seen := make(map[string]bool)
	for _, address := range addresstest.Free(t, 100) {
		host, _, err := net.SplitHostPort(address)
		if err != nil || host == "127.0.0.1" || seen[address] {
			t.Errorf("%s, %v", address, err)
		}
		seen[address] = true
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
}

func TestTheSystemGivesOutNoPortOfAServer(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		t.Skip("the system does not say which ports it gives out:", err)
	}
	var from, to int
	if _, err := fmt.Sscan(string(text), &from, &to); err != nil {
		t.Fatal(err)
	}
	if from < 32_768 {
		t.Skipf("the system gives out ports from %d on, and not from 32768 as Linux does unless it is told to", from)
	}
	for range 100 {
		port := addresstest.Port(t)
		for _, p := range []int{port, port + 10_000} {
			if p >= from && p <= to {
				t.Fatalf("the system gives out port %d", p)
			}
		}
	}
}
