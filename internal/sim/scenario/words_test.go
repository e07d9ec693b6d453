// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"os"
	"strings"
	"testing"
)

func TestDocumentsNameEverything(t *testing.T) {
	scenarios, err := os.ReadFile("../../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, fields := range actionFields {
		for _, word := range append([]string{name}, fields...) {
			if !strings.Contains(string(scenarios), "`"+word+"`") {
				t.Errorf("docs/scenarios.md does not say what %s is", word)
			}
		}
	}
}
