// SPDX-License-Identifier: Apache-2.0

package markers

import (
	"strings"
	"testing"
)

func TestOnlyWhatIsBetweenTheMarkersChanges(t *testing.T) {
	const begins, ends = "<!-- make x: one begins -->\n", "<!-- make x: one ends -->\n"
	const other = "<!-- make x: two begins -->\ntwo\n<!-- make x: two ends -->\n"
	const text = "a\n" + other + begins + "old\n" + ends + "b\n"
	got, err := Replace(text, "make x", "one", "new\n")
	if want := "a\n" + other + begins + "new\n" + ends + "b\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Find(text, "make x", "one"); err != nil || got != "old\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAMissingMarkerIsNamed(t *testing.T) {
	for _, text := range []string{"", "a\n<!-- make x: one begins -->\n", "<!-- make x: one ends -->\n", "<!-- make y: one begins -->\n<!-- make y: one ends -->\n"} {
		if _, err := Replace(text, "make x", "one", "new\n"); err == nil || !strings.Contains(err.Error(), "add the lines") {
			t.Errorf("%q: err = %v", text, err)
		}
		if _, err := Find(text, "make x", "one"); err == nil {
			t.Errorf("%q has something between its markers", text)
		}
	}
}
