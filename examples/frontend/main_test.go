// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/addresstest"
)

func TestTheExampleLimits(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	ended, began := make(chan error, 1), time.Now()
	at := addresstest.Free(t, 2)
	address, cluster := at[0], at[1]
	go func() { ended <- run(ctx, address, cluster, []string{cluster}, "limits.yaml") }()

	get := func() int {
		r, err := http.Get("http://" + address + "/?tenant=quiet")
		if err != nil {
			return 0
		}
		r.Body.Close()
		return r.StatusCode
	}
	up := time.After(time.Minute)
	for get() == 0 {
		select {
		case err := <-ended:
			t.Fatal(err)
		case <-up:
			t.Fatal("it does not serve")
		case <-time.After(5 * time.Millisecond):
		}
	}
	const limit, burst = 5, 5
	seen := make(map[int]int)
	for time.Since(began) < time.Minute && seen[http.StatusTooManyRequests] < 50 {
		seen[get()]++
	}
	// The first was served before. The fallback decides until the node has a grant, with a burst of its own.
	most := 2*burst + limit*time.Since(began).Seconds()
	if ok := float64(1 + seen[http.StatusOK]); ok < burst || ok > most || seen[http.StatusTooManyRequests] < 50 {
		t.Errorf("at most %.1f requests are served at a limit of %d/s: %v", most, limit, seen)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
