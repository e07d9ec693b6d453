// SPDX-License-Identifier: Apache-2.0

// Package waittest has tests wait for what real processes and connections do. What runs in a
// bubble of testing/synctest needs none of it. It does not know what is waited for.
package waittest

import (
	"testing"
	"time"
)

// A machine that runs other tests beside may take a minute for what takes a second. A daemon
// that was lost several times is held for half a minute.
const patience = 3 * time.Minute

// How often conditions are looked at.
const (
	often  = 5 * time.Millisecond
	seldom = 50 * time.Millisecond
)

// Until returns when condition holds, which it calls every 5 ms: so it may also be the traffic
// that a test needs. A test for which it never holds ends after three minutes, saying what
// it waited for.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	until(t, what, condition, func(time.Duration) time.Duration { return often })
}

// UntilSeldom is Until for a condition that costs a request of a process: the longer a test has
// waited, the less often it is called, every 50 ms at last.
func UntilSeldom(t testing.TB, what string, condition func() bool) {
	t.Helper()
	until(t, what, condition, func(waited time.Duration) time.Duration { return min(max(waited/10, often), seldom) })
}

func until(t testing.TB, what string, condition func() bool, pause func(waited time.Duration) time.Duration) {
	t.Helper()
	began := time.Now()
	for !condition() {
		waited := time.Since(began)
		if waited > patience {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(pause(waited))
	}
}
