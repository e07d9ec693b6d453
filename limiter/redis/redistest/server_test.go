// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"errors"
	"testing"
)

// Two tests that draw the same free port do not share the server of the one that came first.
func TestAPortOfAnotherServerIsRefused(t *testing.T) {
	first := Start(t)
	second := &Server{Address: first.Address, t: t, dir: t.TempDir()}
	if err := second.try(); !errors.Is(err, errTaken) {
		second.Kill()
		t.Errorf("%v, want %v", err, errTaken)
	}
	if second.command != nil {
		t.Error("the second server runs")
	}
	first.Restart() // on its port
}
