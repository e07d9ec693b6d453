// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"strings"
	"testing"
)

func TestSlotsAndFactorsThatAreWrittenOtherwiseAreKnown(t *testing.T) {
	for text, want := range map[string]string{
		"10 in flight":  "10 in-flight",
		"10 inflight":   "10 in-flight",
		"10 concurrent": "10 in-flight",
		"x2":            "2x",
		"2×":            "2x",
		"2X":            "2x",
		"150%":          "1.5x",
		"+50%":          "1.5x",
		"-20%":          "0.8x",
		"-100%":         "",
		"x":             "",
		"0%":            "",
		"%":             "",
		"2":             "",
	} {
		_, err := ParseOverride(text)
		if err == nil || want != "" && !strings.Contains(err.Error(), "did you mean "+want+"?") || want == "" && strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if _, err := ParseOverride(want); want != "" && err != nil {
			t.Errorf("%s is advised for %s: %v", want, text, err)
		}
	}
}
