// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

// free returns an address that nobody listens on.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestTheExampleLimits(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	address, cluster := free(t), free(t)
	go func() { ended <- run(ctx, address, cluster, []string{cluster}, "limits.yaml") }()

	get := func() int {
		r, err := http.Get("http://" + address + "/?tenant=quiet")
		if err != nil {
			return 0
		}
		r.Body.Close()
		return r.StatusCode
	}
	up := time.After(30 * time.Second)
	for get() == 0 {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-up:
			t.Fatal("it does not serve")
		case <-time.After(5 * time.Millisecond):
		}
	}
	seen := make(map[int]int)
	for range 100 {
		seen[get()]++
	}
	if seen[http.StatusOK] < 4 || seen[http.StatusTooManyRequests] < 50 {
		t.Errorf("100 requests at a limit of 5/s: %v", seen)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
