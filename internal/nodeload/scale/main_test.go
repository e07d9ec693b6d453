// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/nodeload"
	"github.com/headgate/headgate/internal/nodeload/asks"
	"github.com/headgate/headgate/internal/nodeload/growth"
	"github.com/headgate/headgate/internal/testrun"
)

// The test program is also the node under test, as the program itself is.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "node" {
		if err := nodeload.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// small makes o quick.
func small(o options) options {
	o.node.Keys, o.node.Hosts, o.node.Interval = 200, 4, 100*time.Millisecond
	o.node.Warmup, o.node.Intervals = 2, 2
	o.asking = asks.Config{Answered: 500 * time.Millisecond, Gone: 100 * time.Millisecond}
	o.sizes = growth.Sizes{Keys: []int{200}, Reported: 400, Hosts: []int{1, 4}, Pairs: 400, Rings: []int{10}, Connections: 8}
	return o
}

func needsLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("what a process takes is measured on Linux only")
	}
}

var command = regexp.MustCompile(`(?m)^go run \./internal/nodeload/scale(.*)$`)

func TestCommandsInDocumentsRun(t *testing.T) {
	needsLinux(t)
	text, err := os.ReadFile("../../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	found := command.FindAllSubmatch(text, -1)
	if len(found) == 0 {
		t.Fatal("docs/scale.md shows no command")
	}
	for _, f := range found {
		o, err := parse(strings.Fields(string(f[1])))
		if err != nil {
			t.Errorf("%s: %v", f[0], err)
			continue
		}
		if o.node.Profiles != "" {
			o.node.Profiles = t.TempDir()
		}
		var out bytes.Buffer
		if err := run(t.Context(), small(o), &out); err != nil {
			t.Errorf("%s: %v", f[0], err)
		}
		if o.json && !json.Valid(out.Bytes()) {
			t.Errorf("%s: no JSON: %s", f[0], out.Bytes())
		}
	}
}

func TestDocumentsAreWritten(t *testing.T) {
	testrun.NotUnderRace(t, "documents are written by one goroutine")
	needsLinux(t)
	before, err := os.ReadFile("../../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "scale.md")
	if err := os.WriteFile(file, before, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), small(options{docs: dir}), &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	tables := regexp.MustCompile(`(?s)<!-- make scale: \w+ begins -->\n(.*?)<!-- make scale`).FindAllSubmatch(after, -1)
	if len(tables) != 8 {
		t.Errorf("%d tables", len(tables))
	}
	for _, found := range tables {
		lines := strings.Split(strings.TrimSpace(string(found[1])), "\n")
		for _, line := range lines[1:] {
			if strings.Count(line, "|") != strings.Count(lines[0], "|") || strings.Contains(line, "NaN") || strings.Contains(line, "Inf") {
				t.Errorf("a line of %s: %s", lines[0], line)
			}
		}
		if len(lines) < 3 {
			t.Errorf("no lines in the table of %s", lines[0])
		}
	}
	outside := regexp.MustCompile(`(?s)begins -->\n.*?<!-- make scale`)
	if got, want := outside.ReplaceAll(after, nil), outside.ReplaceAll(before, nil); !bytes.Equal(got, want) {
		t.Error("more than the tables has changed")
	}
}
