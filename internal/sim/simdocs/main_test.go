// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/testrun"
)

func TestEveryFigureOfTheAblationIsThere(t *testing.T) {
	if !testrun.Long() {
		t.Skip("runs six scenarios for every variant: set HEADGATE_LONG=1")
	}
	text, err := ablation(t.Context(), 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 2+len(variants) {
		t.Fatalf("%d lines for %d variants", len(lines), len(variants))
	}
	for _, line := range lines {
		if n := strings.Count(line, "|"); n != len(cells)+3 || strings.Contains(line, "NaN") {
			t.Errorf("%d bars in %s", n, line)
		}
	}
}

func TestRowsAreMerged(t *testing.T) {
	const header = "| scenario | algorithm | x |\n|---|---|--:|\n"
	old := header + "| a | even | 1 |\n|  | elastic | 2 |\n|  | auto | 9 |\n| b | even | 3 |\n|  | elastic | 4 |\n"
	next := header + "| a | exact | 5 |\n|  | auto | 6 |\n| b | exact | 7 |\n|  | auto | 8 |\n"
	want := header + "| a | even | 1 |\n|  | elastic | 2 |\n|  | exact | 5 |\n|  | auto | 6 |\n| b | even | 3 |\n|  | elastic | 4 |\n|  | exact | 7 |\n|  | auto | 8 |\n"
	if got := merge(old, next, true); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	const short = "| worst | y |\n|---|--:|\n"
	if got, want := merge(short+"| `even` | 1 |\n| `gossip` | 2 |\n", short+"| `elastic` | 3 |\n", false), short+"| `even` | 1 |\n| `elastic` | 3 |\n| `gossip` | 2 |\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestEveryFigureOfTheAskingTableIsThere(t *testing.T) {
	if testing.Short() {
		t.Skip("runs twelve scenarios")
	}
	chosen := func(algorithm string) bool { return algorithm == "elastic" || algorithm == "auto" }
	groups, err := asking(t.Context(), 1, chosen)
	if err != nil {
		t.Fatal(err)
	}
	text, err := markdown(groups, askingView)
	if err != nil {
		t.Fatal(err)
	}
	names := scenario.Names(scenario.Asking)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 2+2*len(names) {
		t.Errorf("%d lines for %d scenarios", len(lines), len(names))
	}
	for _, line := range lines {
		if n := strings.Count(line, "|"); n != len(askingView.Only)+3 {
			t.Errorf("%d bars in %s", n, line)
		}
	}
	all := tradeoffs(groups)
	if len(all) != len(names) {
		t.Fatalf("%d panels for %d scenarios", len(all), len(names))
	}
	for _, one := range all {
		if len(one.Points) != 2 || one.Points[0].Algorithm != "elastic" || one.Points[1].Algorithm != "auto" || !(one.Points[0].Calls > 0) {
			t.Errorf("%+v", one)
		}
	}
}

func TestOnlyPartsThatThereAre(t *testing.T) {
	if err := write(t.Context(), t.TempDir(), 1, "", "tables"); err == nil || !strings.Contains(err.Error(), "ablation") {
		t.Errorf("err = %v", err)
	}
}
