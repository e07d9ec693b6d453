// SPDX-License-Identifier: Apache-2.0

package busiest

import (
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

func TestAKeyUnderAnOverrideHasTheLimitThatHolds(t *testing.T) {
	s, err := dynamicconfig.Parse("limits", []byte(`
limits: [{key: "orders:*", limit: 10/s}, {key: "login:*", limit: 10/s}, {key: "mail:*", limit: 10/s}]
overrides:
- {key: "orders:*", limit: 2x, until: 2026-11-21T06:00:00Z, author: ada, reason: the sale}
- {key: "login:*", limit: bypass, until: 2026-11-21T06:00:00Z, author: ada, reason: nobody can log in}
`))
	if err != nil {
		t.Fatal(err)
	}
	s = s.At(time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC))
	tokens := make([]float64, Periods)
	for i := range tokens {
		tokens[i] = 10
	}
	for key, want := range map[string]struct {
		limit string
		used  float64 // -1: none
	}{"mail:a": {"10/s", 0.5}, "orders:a": {"20/s", 0.25}, "login:a": {"bypass", -1}, "other": {"", -1}} {
		if k := keyOf(s, &Counts{Key: key, Allowed: tokens}); k.Limit != want.limit || k.used() != want.used {
			t.Errorf("%s: limit %q, used %v; want %v", key, k.Limit, k.used(), want)
		}
	}
}
