// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// A report says how many slots each key has, those in use too, and nothing of slots if no key
// has some.
func TestAReportSaysHowManySlotsThereAre(t *testing.T) {
	h := newHost(t, 1000, dynamicconfig.Traits{Wants: true}, 1)
	h.use(0, "rate", 3)
	if b := h.report(second); len(b) != 1 || b[0].Usage.Slots != nil {
		t.Fatalf("a report without slots: %+v", b)
	}
	slots := share.NewSlots(0, "slots", h.terms, 1)
	s := h.NewSubject(0, slots)
	h.live = append(h.live, s)
	h.use(0, "another rate", 3)
	hold, err := slots.TryAcquire(0, 7)
	if err != nil {
		t.Fatal(err)
	}
	for round, tt := range []struct {
		want    int64
		granted float64
	}{{7, 0.333}, {333, 0.005}, {7, 0.005}, {5, 0.005}} {
		if round == 3 {
			hold.Release()
		}
		now := stage.Instant(round+2) * second
		batches := h.report(now)
		b := batches[0]
		i := slices.Index(b.Usage.Keys, "slots")
		for j, got := range b.Usage.Slots {
			if j == i && got != tt.want+1 || j != i && got != 0 {
				t.Errorf("round %d, %s: %d, and the key has %d slots", round, b.Usage.Keys[j], got, tt.want)
			}
		}
		if len(b.Usage.Slots) != b.Usage.Len() || b.Usage.Len() < 2 {
			t.Errorf("round %d: %d slots of %d keys", round, len(b.Usage.Slots), b.Usage.Len())
		}
		h.granted(now, batches, tt.granted, 0)
		h.Done(b)
	}
}
