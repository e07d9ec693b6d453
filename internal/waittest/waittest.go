// SPDX-License-Identifier: Apache-2.0

// Package waittest has tests wait for what real processes and connections do.
// What runs in a bubble of testing/synctest needs none of it.
package waittest

import (
	"testing"
	"time"
)

const (
	patience = 30 * time.Second
	lookEach = 5 * time.Millisecond
)

// Until returns when condition holds. A test for which it never does ends
// after half a minute, saying what it waited for.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}
