// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate/rpc/usage"
)

// Quiet hosts tell a new owner of their loans with their regular reports, up to an
// interval after it began.
func TestANewOwnerHearsOfLoansLate(t *testing.T) {
	old, heir := under(t, autoRule(1, 1000)), under(t, autoRule(1, 1000))
	now, held := time.Minute, 0.0
	for i := range 10 {
		wanted(t, old, now, "auto", fmt.Sprint("h", i), 9, 0)
	}
	now += time.Second
	for i := range 10 {
		held += wanted(t, old, now, "auto", fmt.Sprint("h", i), 9, sureWeight).Tokens[0]
	}
	heir.Moved(now)
	// The key moves. A host without a grant asks the new owner first.
	took(t, heir, now, usage.Take{Auto: true, Tokens: 1})
	now += time.Second
	for i := range 10 {
		wanted(t, heir, now, "auto", fmt.Sprint("h", i), 9, sureWeight)
	}
	left := took(t, heir, now, usage.Take{Auto: true}).Left
	if left > 500 {
		t.Errorf("hosts hold %v of the old owner, and the new owner has %v left of 1000", held, left)
	}
}

const sureWeight = 1. / (1 << 42)
