// SPDX-License-Identifier: Apache-2.0

package spelling_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/spelling"
)

func TestNearestIsTheNameThatWasMeant(t *testing.T) {
	names := []string{"limit", "burst", "max_wait", "max_keys", "on", "none", "even"}
	for _, tt := range []struct{ typed, want string }{
		{"limit", "limit"},
		{"limt", "limit"},
		{"timit", "limit"},
		{"limitt", "limit"},
		{"max_wiat", "max_wait"},
		{"mx_waits", "max_wait"}, // two edits
		{"burts", "burst"},       // two bytes are swapped
		{"evne", "even"},
		{"noone", "none"},
		{"mine", ""}, // two edits of four bytes
		{"oven", "even"},
		{"eleven", ""},
		{"abcit", ""},    // three
		{"bur", "burst"}, // how it begins
		{"bu", ""},       // could be anything
		{"burst_tokens", "burst"},
		{"max_", "max_wait"}, // the first of those that are as near
		{"of", "on"},
		{"xy", ""}, // as many edits as the name has letters
		{"", ""},
		{strings.Repeat("x", 1<<20), ""},
	} {
		if got := spelling.Nearest(tt.typed, names); got != tt.want {
			t.Errorf("%.20q: %q, not %q", tt.typed, got, tt.want)
		}
	}
	if got := spelling.Nearest("limit", nil); got != "" {
		t.Errorf("of no names: %q", got)
	}
}
