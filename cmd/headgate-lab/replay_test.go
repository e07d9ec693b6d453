// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/markers"
)

var update = flag.Bool("update", false, "write the figures of the page anew")

const replayPage = "docs/replay.md"

// words splits a command as a shell does, as far as the page needs it.
func words(command string) []string {
	var all []string
	for _, w := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(command, -1) {
		all = append(all, strings.Trim(w, "'"))
	}
	return all
}

// Every command on the page runs, and the first prints what the page says.
func TestCommandsOfTheReplayPageRun(t *testing.T) {
	t.Chdir("../..")
	page, err := os.ReadFile(replayPage)
	if err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^\$ headgate-lab (replay .*)$`).FindAllStringSubmatch(string(page), -1)
	if len(commands) < 4 {
		t.Fatalf("only %d commands", len(commands))
	}
	for i, c := range commands {
		out, _, err := execute(t, words(c[1])...)
		if err != nil {
			t.Errorf("%s: %v", c[1], err)
			continue
		}
		if i > 0 {
			continue
		}
		block := "```text\n" + out + "```\n"
		if *update {
			text, err := markers.Replace(string(page), "headgate-lab replay", "shop", block)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(replayPage, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if shown, err := markers.Find(string(page), "headgate-lab replay", "shop"); err != nil || shown != block {
			t.Errorf("the page shows other figures; if that is meant, run go test ./cmd/headgate-lab -update\n%v\n%s", err, out)
		}
	}
}

func TestReplayJSON(t *testing.T) {
	out, _, err := execute(t, "replay", "../../examples/replay/access.log", "--limit", "8/s", "--json", "--algorithm", "even")
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Events     int64
		Algorithms []struct {
			Algorithm   string
			RejectedPct float64 `json:"rejected_pct"`
		}
		Limits []struct {
			Limit float64 `json:"limit_per_s"`
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	if report.Events == 0 || len(report.Algorithms) != 2 || report.Algorithms[1].Algorithm != "even" || len(report.Limits) != 3 {
		t.Errorf("%+v", report)
	}
	if l := report.Limits; !(l[0].Limit > l[1].Limit && l[1].Limit > l[2].Limit) {
		t.Errorf("limits %+v", l)
	}
}

// endless is a log that goes on for ever, of a year.
type endless struct{ second time.Duration }

func (e *endless) Read(p []byte) (int, error) {
	e.second += time.Second
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(e.second)
	return copy(p, at.Format("::1 - - [02/Jan/2006:15:04:05 -0700] \"GET / HTTP/1.1\" 200 1\n")), nil
}

func TestAnInterruptEndsTheReadingOfALog(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cmd := newRoot()
	cmd.SetIn(new(endless))
	cmd.SetArgs([]string{"replay", "-", "--limit", "1/s"})
	if err := cmd.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestReplayMistakes(t *testing.T) {
	const log = "../../examples/replay/access.log"
	for args, want := range map[string]string{
		"replay":                                       "takes LOG, and there is none",
		"replay " + log:                                "limit",
		"replay nowhere.log --limit 1/s":               "no such file",
		"replay " + log + " --limit 1":                 "--limit",
		"replay " + log + " --limit 1/s --by moon":     "take client or random",
		"replay " + log + " --limit 1/s --format x":    "there is no format \"x\"",
		"replay " + log + " --limit 1/s --key {host}":  "has no field \"host\"",
		"replay " + log + " --limit 1/s --format json": "access.log:1: ",
		"replay " + log + " --limit 1/s --algorithm x": "x",
	} {
		_, _, err := execute(t, strings.Fields(args)...)
		if err == nil || !strings.Contains(command.OneLine(err), want) {
			t.Errorf("%s: err = %v, want %s", args, err, want)
		}
	}
}
