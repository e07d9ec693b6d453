// SPDX-License-Identifier: Apache-2.0

package background

import (
	"log/slog"
	"testing"
)

// A function that panics in the background ends nothing, and leaves its place.
func TestAPanicInTheBackgroundEndsNothing(t *testing.T) {
	b := New(4, slog.New(slog.DiscardHandler))
	for range 2 * b.Most() {
		b.Run(func() { panic("a defect") })
		b.Join()
	}
	ran := false
	if !b.Run(func() { ran = true }) {
		t.Error("there is no place left")
	}
	if b.Join(); !ran {
		t.Error("it did not run")
	}
}
