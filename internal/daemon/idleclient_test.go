// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"
)

// A client that has no call, and does not read that the daemon ends, as a program in Python between calls, does not
// delay the end, and is no call that did not end in time.
func TestStopWaitsForCallsAlone(t *testing.T) {
	c := config(t)
	c.Drain = 4 * time.Second // less than grpc waits for such a client
	log, logged := recording()
	d, err := Start(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", d.Edge())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 9)); err != nil { // the daemon's settings
		t.Fatal(err)
	}
	if _, err := grpc_health_v1.NewHealthClient(dial(t, d.Edge())).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(context.Background()); err != nil || strings.Contains(logged(), "did not end in time") {
		t.Errorf("stop: %v, logged:\n%s", err, logged())
	}
}

// A call that is under way for longer than the daemon waits for clients without one is waited for.
func TestStopWaitsForACallBesideAClientWithoutOne(t *testing.T) {
	c := config(t)
	c.Drain = 2 * time.Second
	log, logged := recording()
	d, err := Start(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	endless(t, t.Context(), dial(t, d.Edge()))
	began := time.Now()
	if err := d.Stop(context.Background()); err != nil || !strings.Contains(logged(), "calls to the edge did not end in time") {
		t.Errorf("stop: %v, logged:\n%s", err, logged())
	}
	if took := time.Since(began); took < c.Drain {
		t.Errorf("stopping took %v", took)
	}
}
