// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/demo"
)

// execute runs headgate-lab with args, as main does.
func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := newRoot()
	var out, progress bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&progress)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), progress.String(), err
}

func TestMistakesAreToldInOneLineWithAHint(t *testing.T) {
	for _, c := range []struct {
		args string
		want string
	}{
		{"demo --fro 20s", "unknown flag: --fro; did you mean --for? `headgate-lab demo --help` lists the flags"},
		{"demo --offred 20", "did you mean --offered?"},
		{"demo --print", "did you mean --print-config?"},
		{"demo --nothing-like-it", "unknown flag: --nothing-like-it; `headgate-lab demo --help` lists the flags"},
		{"demo -x", "`headgate-lab demo --help` lists the flags"},
		{"demo --for soon", "--for: \"soon\": write a time, as in 5s; `headgate-lab demo --help` lists the flags"},
		{"demo --for 2s", "take at least 12s, or 0"},
		{"demo --for -2s", "--for -2s: take 12s or more"},
		{"demo --limit many", "--limit: \"many\": write a whole number, as in 100; "},
		{"demo --limit 0", "--limit 0: take 1 or more"},
		{"demo --offered 0", "--offered 0: take 1 or more"},
		{"demo --offered 1000000", "take 1 to 20000"},
		{"demo now", "now"},
		{"dmeo", "dmeo"},
	} {
		out, _, err := execute(t, strings.Fields(c.args)...)
		if err == nil {
			t.Errorf("%s: no error", c.args)
			continue
		}
		if got := command.OneLine(err); !strings.Contains(got, c.want) || strings.Contains(got, "\n") || out != "" {
			t.Errorf("%s: error %q, output %q; want %q in one line", c.args, got, out, c.want)
		}
	}
}

func TestHelpHasExamples(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"demo", "--help"}, {"simulate", "--help"}, {"version", "--help"}} {
		out, _, err := execute(t, args...)
		if err != nil || !strings.Contains(out, "Examples:") {
			t.Errorf("%v: %v, no example in:\n%s", args, err, out)
		}
	}
}

func TestPrintConfigIsWhatTheHostsRunWith(t *testing.T) {
	out, _, err := execute(t, "demo", "--print-config", "--limit", "70")
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := dynamicconfig.Parse("limits.yaml", []byte(out))
	if err != nil {
		t.Fatal(err)
	}
	if limit := snapshot.Rules()[0].Limit; limit != 70 {
		t.Errorf("limit is %v, want 70", limit)
	}
}

// played is a demo without hosts.
func played(failure error) func(context.Context, demo.Config, func(demo.Frame)) (demo.Result, error) {
	return func(_ context.Context, config demo.Config, watch func(demo.Frame)) (demo.Result, error) {
		watch(demo.Frame{Headline: "it goes on"})
		results := []demo.Measurement{{Algorithm: "even", OfferedPerS: 1000, AdmittedPerS: 200, IdealPerS: 500}}
		return demo.Result{LimitPerS: float64(config.Limit), Phases: []demo.Phase{{Name: "steady", Results: results}}}, failure
	}
}

func runDemo(t *testing.T, f demoFlags) (stdout, stderr string, err error) {
	t.Helper()
	cmd := newDemo()
	var out, progress bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&progress)
	cmd.SetContext(t.Context())
	f.limit, f.length = 500, time.Minute
	err = f.run(cmd)
	return out.String(), progress.String(), err
}

func TestJSONIsOneObjectAndProgressIsElsewhere(t *testing.T) {
	out, progress, err := runDemo(t, demoFlags{json: true, play: played(nil)})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		LimitPerS float64 `json:"limit_per_s"`
		Phases    []struct {
			Name    string
			Results []map[string]any
		}
	}
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		t.Errorf("more than one object: %s", out)
	}
	if got.LimitPerS != 500 || got.Phases[0].Name != "steady" || got.Phases[0].Results[0]["admitted_per_s"] != 200.0 {
		t.Errorf("got %+v", got)
	}
	if !strings.Contains(progress, "it goes on") {
		t.Errorf("progress is %q", progress)
	}
}

func TestWithoutATerminalThereAreLinesAndTheSummary(t *testing.T) {
	out, progress, err := runDemo(t, demoFlags{play: played(nil)})
	if err != nil || progress != "" || !strings.Contains(out, "it goes on") || !strings.Contains(out, "evenly divided limits admitted 40%") {
		t.Errorf("out %q, stderr %q, error %v", out, progress, err)
	}
}

func TestAFailedDemoIsAnError(t *testing.T) {
	broken := errors.New("broken")
	if out, _, err := runDemo(t, demoFlags{json: true, play: played(broken)}); !errors.Is(err, broken) || out != "" {
		t.Errorf("out %q, error %v", out, err)
	}
}
