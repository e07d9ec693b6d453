// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"math"
	"os"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"
)

// everyField is a config file that has each field.
func everyField(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/every-field.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestYAMLIsTheSameConfiguration(t *testing.T) {
	for _, text := range []string{everyField(t), "limits: []", "limits: []\nunmatched: deny"} {
		s := mustParse(t, text)
		again, err := Parse("again", s.YAML())
		if err != nil || again.Version() != s.Version() {
			t.Errorf("%v in\n%s", err, s.YAML())
		}
		for _, r := range s.Rules() {
			list := "limits:\n  -\n" + string(r.YAML("    "))
			if got := mustParse(t, "defaults: {update_interval: 2s}\n"+list).Rules()[0]; got.Key != r.Key || got.Lease != r.Lease {
				t.Errorf("%+v became %+v", r, got)
			}
		}
	}
}

func TestNumbersAreWrittenExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{
			Key: rapid.StringN(1, 20, 80).Draw(t, "key"), Limit: rate.Limit(rapid.Float64Range(1e-6, 1e12).Draw(t, "limit")), Algorithm: "static",
			Lease: time.Duration(rapid.Int64Range(int64(4*time.Second), int64(24*time.Hour)).Draw(t, "lease")), Overcommit: math.Round(rapid.Float64Range(0, 100).Draw(t, "percent")*100) / 100 / 100,
			Description: rapid.String().Draw(t, "description"),
		}
		s, err := Config{Rules: []Rule{r}}.Snapshot()
		if err != nil {
			t.Skip("the key is no glob")
		}
		again, err := Parse("again", s.YAML())
		if err != nil || again.Version() != s.Version() {
			t.Fatalf("%v in\n%s", err, s.YAML())
		}
	})
}
