// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"errors"
	"testing"

	"github.com/headgate/headgate/rpc/usage"
)

// An owner that has too much to do does not serve asks whose hosts wait no longer, and says so.
func TestAnOverloadedOwnerLeavesAsksOut(t *testing.T) {
	a, counter := counted(t, exactRule(0.001, 5))
	ended, end := context.WithCancel(t.Context())
	end()
	takes, err := usage.EncodeTakes(&usage.Takes{Caller: 7, Batch: 1, Rows: []usage.Take{{Key: "k", Tokens: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := a.Update(ended, "asker", takes); answer != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("an ask whose host waits no longer is served: %v, %v", answer, err)
	}
	if got := counter("messages_overdue"); got != 1 {
		t.Errorf("%d messages are counted as overdue", got)
	}
	if got := left(t, a, Now()); got < 4.9 {
		t.Errorf("%v tokens are left of 5", got)
	}
	if answer, err := a.Update(t.Context(), "asker", takes); err != nil || answer == nil {
		t.Errorf("the ask, sent again: %v", err)
	}
	if got := left(t, a, Now()); got > 2.1 {
		t.Errorf("%v tokens are left of 5 after 3 were taken", got)
	}
}
