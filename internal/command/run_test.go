// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"testing"
)

func TestErrorsAreOneLineUnlessTheyShowAFile(t *testing.T) {
	const pointed = "mine.yaml:3:11: duration: \"120\" has no unit\n    3 | duration: 120\n      |           ^"
	for text, want := range map[string]string{
		"one":      "one",
		"one\ntwo": "one; two",
		pointed:    pointed,
	} {
		if got := shown(errors.New(text)); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
