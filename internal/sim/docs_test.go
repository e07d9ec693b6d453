// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var fence = regexp.MustCompile("(?s)```scenario\n(.*?)```")

func TestScenariosInDocumentsRun(t *testing.T) {
	text, err := os.ReadFile("../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	found := fence.FindAllSubmatch(text, -1)
	if len(found) == 0 {
		t.Fatal("docs/scenarios.md shows no scenario")
	}
	for _, f := range found {
		sc, err := Parse("docs/scenarios.md", f[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(sc, "", 1); err != nil {
			t.Error(err)
		}
	}
}

func TestDocumentsNameEverything(t *testing.T) {
	scenarios, err := os.ReadFile("../../docs/scenarios.md")
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
	accuracy, err := os.ReadFile("../../docs/accuracy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"utilisation_pct", "false_reject_pct", "over_pct", "over_later_pct", "settle_s", "reports_per_host_s", "bytes_per_host_s"} {
		if !strings.Contains(string(accuracy), "`"+name+"`") {
			t.Errorf("docs/accuracy.md does not define %s", name)
		}
	}
}
