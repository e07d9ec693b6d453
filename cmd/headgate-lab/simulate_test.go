// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/testrun"
)

func TestSimulateListsScenarios(t *testing.T) {
	out, _, err := execute(t, "simulate", "--list")
	if err != nil || strings.Count(out, "\n") != len(scenario.Names()) || !strings.Contains(out, "steady-skew") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSimulateJSONIsAnArrayOfMetrics(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	args := strings.Fields("simulate steady-skew recorded --algorithm even,request-weighted --seed 3 --seeds 2 --json")
	out, _, err := execute(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	// One key, and two with a row for both together; by 2 algorithms and 2 seeds.
	if len(rows) != (1+3)*4 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, name := range []string{"scenario", "algorithm", "seed", "key", "utilisation_pct", "false_reject_pct", "over_pct", "settle_s", "reports_per_host_s", "asks_per_host_s", "bytes_per_host_s", "waited_pct", "fairness", "saturated_pct", "events_per_host_s"} {
		if _, ok := rows[0][name]; !ok {
			t.Errorf("no %s in %v", name, rows[0])
		}
	}
	if r := rows[0]; r["scenario"] != "steady-skew" || r["algorithm"] != "even" || r["seed"] != 3.0 || r["key"] != "sim:skew" {
		t.Errorf("%v", r)
	}
	again, _, err := execute(t, args...)
	if err != nil || again != out {
		t.Errorf("the same command prints something else: %v", err)
	}
}

func TestSimulateTables(t *testing.T) {
	out, _, err := execute(t, "simulate", "recorded", "--keys", "--seeds", "3", "--algorithm", "request-weighted")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"utilisation %", "recorded *", "recorded api:read", "recorded api:write", "("} {
		if !strings.Contains(out, text) {
			t.Errorf("no %q in\n%s", text, out)
		}
	}
	out, _, err = execute(t, "simulate", "recorded", "--markdown", "--algorithm", "even,request-weighted")
	if err != nil || !strings.HasPrefix(out, "| scenario | algorithm |") || strings.Count(out, "| recorded |") != 1 || strings.Count(out, "\n") != 4 {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestSimulateReadsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mine.yaml")
	text := "name: mine\nduration: 10s\nhosts: 2\nlimits: [{key: k, limit: 5/s}]\ntraffic: [{key: k, rate: 1/s}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := execute(t, "simulate", file)
	if err != nil || !strings.Contains(out, "mine") {
		t.Errorf("%v\n%s", err, out)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(text, "hosts: 2", "hosts: none", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err = execute(t, "simulate", file); err == nil || !strings.Contains(err.Error(), "mine.yaml:3:8: hosts: ") {
		t.Errorf("err = %v", err)
	}
}

func TestSimulatePlots(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := execute(t, "simulate", "recorded", "doorman-1", "--plot", filepath.Join(dir, "a.svg")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a-recorded.svg", "a-doorman-1.svg"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestSimulateMistakes(t *testing.T) {
	for args, want := range map[string]string{
		"simulate":                          "name a scenario, a file, a group, or all",
		"simulate nowhere":                  "there is no scenario \"nowhere\": use the path of a file, or one of",
		"simulate ./nowhere.yaml":           "no such file",
		"simulate cron --seeds 0":           "--seeds 0: take 1 to",
		"simulate cron --json --markdown":   "take one of them",
		"simulate cron --plot x.pdf":        "neither .svg nor .png",
		"simulate cron --algorithm psychic": "psychic",
		"simulate cron --algoritm even":     "did you mean --algorithm?",
	} {
		_, _, err := execute(t, strings.Fields(args)...)
		if err == nil || !strings.Contains(command.OneLine(err), want) {
			t.Errorf("%s: err = %v, want %s", args, err, want)
		}
	}
}
