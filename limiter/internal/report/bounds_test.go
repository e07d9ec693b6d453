// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"testing"

	"github.com/headgate/headgate/limiter/stage"
)

// Keys come and go while no owner answers.
func TestWhatIsNeverAnsweredIsBounded(t *testing.T) {
	h := newHost(t, 1000, reportsEarly, 1)
	now := stage.Instant(0)
	for i := range maxRetired + 500 {
		h.retire(h.use(now, fmt.Sprint(i), 1))
	}
	h.report(second)
	if n := len(h.retired.subjects); n > maxRetired {
		t.Errorf("%d are kept", n)
	}
}
