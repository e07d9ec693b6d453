// SPDX-License-Identifier: Apache-2.0

package world

import (
	"os"
	"regexp"
	"testing"

	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/testrun"
)

var fence = regexp.MustCompile("(?s)```scenario\n(.*?)```")

func TestScenariosInDocumentsRun(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	text, err := os.ReadFile("../../../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	found := fence.FindAllSubmatch(text, -1)
	if len(found) == 0 {
		t.Fatal("docs/scenarios.md shows no scenario")
	}
	for _, f := range found {
		sc, err := scenario.Parse("docs/scenarios.md", f[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Run(sc, "", 1); err != nil {
			t.Error(err)
		}
	}
}
