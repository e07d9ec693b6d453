// SPDX-License-Identifier: Apache-2.0

// Package waittest has tests wait for what real processes and connections do.
// What runs in a bubble of testing/synctest needs none of it.
package waittest

import (
	"testing"
	"time"
)

// A machine that runs other tests beside may take a minute for what takes a second. A daemon
// that was lost several times is held for half a minute.
const (
	patience = 3 * time.Minute
	// A look may cost a request of a process. A test that has waited for long looks less often.
	lookFirst, lookLast = 5 * time.Millisecond, 50 * time.Millisecond
)

// Until returns when condition holds. A test for which it never does ends
// after three minutes, saying what it waited for.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	began := time.Now()
	for !condition() {
		waited := time.Since(began)
		if waited > patience {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(min(max(waited/10, lookFirst), lookLast))
	}
}
