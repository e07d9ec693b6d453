// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestEverythingThatIsShownIsMeasured runs all benchmarks with tiny sizes, and
// so looks at their names but not at the sizes in them.
func TestEverythingThatIsShownIsMeasured(t *testing.T) {
	t.Chdir("..")
	o := options{bench: ".", count: 1, time: time.Microsecond, pairs: 1 << 60, short: true}
	output, err := o.measure(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r, err := read(bytes.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	if r.cpu == "" {
		t.Error("the CPU is not known")
	}
	sizes := regexp.MustCompile(`\d+(#\d+)?`)
	without := func(name string) string { return sizes.ReplaceAllString(name, "n") }
	measured := make(map[cell]bool)
	for at := range r.value {
		measured[cell{without(at.name), at.by, at.unit}] = true
	}
	for _, g := range wanted {
		for _, by := range g.by {
			if at := (cell{without(g.name), by, g.unit}); !measured[at] {
				t.Errorf("%s: nothing measures %v", g.what, at)
			}
			if at := (cell{without(g.over.name), g.over.by, cmp.Or(g.over.unit, g.unit)}); at.name != "" && at.by != "" && !measured[at] {
				t.Errorf("%s: nothing measures %v", g.what, at)
			}
		}
	}
	shown := make(map[string]bool)
	for _, s := range subjects {
		for _, unit := range s.units {
			found := s.base == ""
			for at := range measured {
				if name, _, _ := strings.Cut(at.name, "/"); name == s.name && at.unit == unit {
					shown[s.name] = true
					found = found || at.by == s.base
				}
			}
			if !found {
				t.Errorf("nobody measures %s of %s by %s", unit, s.name, s.base)
			}
		}
	}
	for _, name := range r.names {
		if name, _, _ = strings.Cut(name, "/"); !shown[name] {
			t.Errorf("%s is measured and not shown", name)
		}
	}
}

// output is of six rounds of two that differ, and of a report of ten keys.
const output = `cpu: abacus
BenchmarkDecision/do=allow/mode=serial/by=elastic-2 100 50 ns/op 0 B/op 0 allocs/op
BenchmarkDecision/do=allow/mode=serial/by=elastic-2 100 52 ns/op 0 B/op 0 allocs/op
BenchmarkDecision/do=allow/mode=serial/by=elastic-2 100 51 ns/op 0 B/op 0 allocs/op
BenchmarkDecision/do=allow/mode=serial/by=elastic-2 100 51 ns/op 0 B/op 0 allocs/op
BenchmarkDecision/do=allow/mode=serial/by=elastic-2 100 51 ns/op 0 B/op 0 allocs/op
BenchmarkDecision/do=allow/mode=serial/by=elastic-2 100 90 ns/op 0 B/op 0 allocs/op
BenchmarkDecision/do=allow/mode=serial/by=x-time-rate-2 100 102 ns/op 0 B/op 0 allocs/op
BenchmarkDecision/do=allow/mode=serial/by=x-time-rate-2 100 101 ns/op 0 B/op 0 allocs/op
BenchmarkDecision/do=allow/mode=serial/by=x-time-rate-2 100 103 ns/op 0 B/op 0 allocs/op
BenchmarkDecision/do=allow/mode=serial/by=x-time-rate-2 100 102 ns/op 0 B/op 0 allocs/op
BenchmarkDecision/do=allow/mode=serial/by=x-time-rate-2 100 102 ns/op 0 B/op 0 allocs/op
BenchmarkDecision/do=allow/mode=serial/by=x-time-rate-2 100 102 ns/op 0 B/op 0 allocs/op
BenchmarkReport/keys=10/by=cadence-2 100 12000 ns/op 10 keys/op 500 B/op 25 allocs/op
`

func TestTable(t *testing.T) {
	r, err := read(strings.NewReader(output))
	if err != nil {
		t.Fatal(err)
	}
	if r.cpu != "abacus" {
		t.Errorf("cpu = %q", r.cpu)
	}
	lines := strings.Split(strings.TrimSpace(r.table()), "\n")
	want := []string{
		"| Decision do=allow mode=serial | elastic | 51.00ns | ",
		"| Decision do=allow mode=serial | x-time-rate | 102.0ns | ",
		"| Report keys=10 | cadence | 1.200µs/key |  | 50.00 | 2.500 | 1 |",
	}
	if len(lines) != 2+len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), r.table())
	}
	for i, line := range lines[2:] {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("%s\nwant %s", line, want[i])
		}
	}
	if !strings.HasSuffix(lines[2], "| 0 | 0 | 0.50 |") {
		t.Error(lines[2])
	}
	goals := r.goals()
	for _, want := range []string{
		"| one key, serial ÷ x/time/rate | ≤ 0.65× | elastic 0.50× | met |",
		"| one key, 2 cores ÷ x/time/rate | ≤ 0.60× |  | not measured |",
	} {
		if !strings.Contains(goals, want) {
			t.Errorf("no %q in\n%s", want, goals)
		}
	}
}

func TestAMissedGoalSaysSo(t *testing.T) {
	r, err := read(strings.NewReader(strings.ReplaceAll(output, " 102 ns", " 60 ns")))
	if err != nil {
		t.Fatal(err)
	}
	if want := "elastic 0.85× | **missed** |"; !strings.Contains(r.goals(), want) {
		t.Errorf("no %q in\n%s", want, r.goals())
	}
}

func TestOnlyWhatIsBetweenTheMarkersChanges(t *testing.T) {
	const marked = "a\n<!-- make bench: one begins -->\nold\n<!-- make bench: one ends -->\nz\n"
	file := filepath.Join(t.TempDir(), "p.md")
	if err := os.WriteFile(file, []byte(marked), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(file, map[string]string{"one": "new\n"}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if want := strings.Replace(marked, "old", "new", 1); err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	if err := rewrite(file, map[string]string{"two": ""}); err == nil || !strings.Contains(err.Error(), "add the lines") {
		t.Errorf("err = %v", err)
	}
}

func TestAPartOfTheBenchmarksWritesNoDocument(t *testing.T) {
	for _, args := range [][]string{{"-bench", "Ring"}, {"-quick"}, {"-from", "earlier.txt"}} {
		o, err := parse(args, io.Discard)
		if err != nil || o.doc != "" {
			t.Errorf("%v: writes %q, %v", args, o.doc, err)
		}
	}
	if o, err := parse(nil, io.Discard); err != nil || o.doc == "" {
		t.Errorf("all of them: writes %q, %v", o.doc, err)
	}
	if err := run(context.Background(), []string{"-count", "0"}, io.Discard, io.Discard); err == nil {
		t.Error("no rounds are not refused")
	}
}
