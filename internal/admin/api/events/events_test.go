// SPDX-License-Identifier: Apache-2.0

package events

import (
	"testing"
	"time"
)

func TestTheNewestEventsAreKept(t *testing.T) {
	f := New(time.Now)
	for range 3 * keptEvents {
		f.Add(Event{Kind: "member"})
	}
	if all, _ := f.Since(0); len(all) > keptEvents || all[len(all)-1].ID != 3*keptEvents {
		t.Errorf("%d events are kept", len(all))
	}
}
