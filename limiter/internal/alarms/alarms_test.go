// SPDX-License-Identifier: Apache-2.0

package alarms_test

import (
	"slices"
	"testing"

	"github.com/headgate/headgate/limiter/internal/alarms"
	"github.com/headgate/headgate/limiter/internal/lanes"
	"github.com/headgate/headgate/limiter/stage"
)

func TestItemsAreTakenOnceTheyAreDue(t *testing.T) {
	a := alarms.New[string]()
	if out := a.Take(100); out != nil || a.Due() != lanes.Never {
		t.Errorf("%q of none, due %d", out, a.Due())
	}
	for item, sooner := range []bool{true, false, true, false} {
		at := []stage.Instant{7, 9, 5, 7}[item]
		if a.Add(string(rune('a'+item)), at) != sooner {
			t.Errorf("Add %d reported %v", item, !sooner)
		}
	}
	for _, want := range []struct {
		now, due stage.Instant
		out      []string
	}{{4, 5, nil}, {7, 9, []string{"a", "c", "d"}}, {8, 9, nil}, {9, lanes.Never, []string{"b"}}} {
		if out := a.Take(want.now); !slices.Equal(out, want.out) || a.Due() != want.due {
			t.Errorf("at %d: %q, then due %d; want %q, %d", want.now, out, a.Due(), want.out, want.due)
		}
	}
}
