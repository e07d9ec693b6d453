// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testrun"
)

var update = flag.Bool("update", false, "write the golden file anew where it does not hold")

const goldenFile = "testdata/costs.golden"

const ifMeant = "if what is WORSE is meant, and for all that is better: make costs, look at the diff of internal/costs/" +
	goldenFile + ", and commit it with the change"

// TestNothingCostsMoreThanTheFileSays measures all operations. With -update
// it keeps the figures that hold: if each update took in what is within the
// tolerance, costs could creep up unseen.
func TestNothingCostsMoreThanTheFileSays(t *testing.T) {
	if testing.Short() {
		t.Skip("measuring takes half a minute: run it without -short")
	}
	golden := readGolden(t)
	skip := unmeasured(t, golden)
	worker := buildWorker(t)
	all, uncounted := operations(), append(slices.Clone(skip), Instructions)
	if shortForm() && !slices.Contains(skip, Instructions) {
		t.Run("slow operations", func(t *testing.T) {
			t.Skip("the instructions of operations that take long to count are NOT counted: HEADGATE_LONG=1 or make costs counts them")
		})
	}

	rows := make([]Operation, len(all))
	t.Run("operations", func(t *testing.T) {
		for i, o := range all {
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				skip := skip
				if o.slow && shortForm() {
					skip = uncounted
				}
				want := golden.Find(o.name)
				f, differences := o.hold3(t, worker, want, skip)
				rows[i] = Operation{Name: o.name, Per: o.per, Figures: f}
				if *update {
					rows[i].Figures = merge(want, f, skip)
				}
				for _, d := range differences {
					if *update {
						t.Log(d)
					} else {
						t.Error(d)
					}
				}
			})
		}
	})
	if *update && !t.Failed() {
		writeGolden(t, golden, rows, skip)
		return
	}
	for _, o := range golden.Operations {
		if !slices.ContainsFunc(all, func(a operation) bool { return a.name == o.Name }) {
			t.Errorf("%s: is in the file and not measured", o.Name)
		}
	}
	if t.Failed() {
		t.Log(ifMeant)
	}
}

// shortForm reports whether the instructions of slow operations are not counted.
func shortForm() bool { return !testrun.Long() && !*update }

// hold3 measures o, and twice more if that is not what the file says.
func (o operation) hold3(t *testing.T, worker string, want Figures, skip []Kind) (Figures, []string) {
	t.Helper()
	measure := func() Figures {
		f, err := o.figures(t.Context(), worker, !slices.Contains(skip, Instructions))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := measure()
	atFirst := Compare(o.name, want, first, skip...)
	if len(atFirst) == 0 {
		return first, nil
	}
	f := Median([]Figures{first, measure(), measure()})
	differences := Compare(o.name, want, f, skip...)
	if len(differences) == 0 {
		t.Log("held at the second attempt only; at first:", atFirst)
	}
	return f, differences
}

// merge is what an update writes: what is in the file where it holds, or is
// skipped, and else what was measured.
func merge(want, measured Figures, skip []Kind) Figures {
	merged := make(Figures)
	for _, k := range Kinds {
		w, wanted := want[k]
		m, ok := measured[k]
		switch {
		case wanted && slices.Contains(skip, k):
			merged[k] = w
		case wanted && ok && difference(k, w, m) == "":
			merged[k] = w
		case ok:
			merged[k] = m
		}
	}
	return merged
}

// unmeasured are the kinds that cannot be measured or compared here: a loud
// skip. Without what counts it is a failure in CI; another release of Go than
// the file's is none, because the tree has not changed.
func unmeasured(t *testing.T, golden *Golden) []Kind {
	t.Helper()
	err := CanCount()
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("instructions: %v", err)
	}
	if err == nil && golden.Counted != Toolchain() && !*update {
		err = errors.New("the file's were counted with " + golden.Counted + ", and this is " + Toolchain() +
			": counts differ between releases of Go, so run make costs with this one and commit the file")
	}
	if err == nil {
		return nil
	}
	t.Run("instructions", func(t *testing.T) { t.Skipf("instructions are NOT compared: %v", err) })
	return []Kind{Instructions}
}

// shared is the worker of all tests, which TestMain removes. No two tests build at once.
var shared struct{ dir, worker string }

func buildWorker(t *testing.T) string {
	t.Helper()
	if shared.worker != "" {
		return shared.worker
	}
	dir, err := os.MkdirTemp("", "headgate-costs") //nolint:usetesting // it outlives the test
	if err != nil {
		t.Fatal(err)
	}
	shared.dir = dir
	worker := filepath.Join(dir, "worker")
	if err := build(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	shared.worker = worker
	return worker
}

// readGolden is empty if there is no file and it is about to be written, and
// without what an update cannot keep.
func readGolden(t *testing.T) *Golden {
	t.Helper()
	text, err := os.ReadFile(goldenFile)
	if errors.Is(err, os.ErrNotExist) && *update {
		return new(Golden)
	}
	if err != nil {
		t.Fatal(err)
	}
	golden, err := ReadGolden(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", goldenFile, err)
	}
	if *update && golden.Counted != Toolchain() && CanCount() == nil {
		for _, o := range golden.Operations {
			delete(o.Figures, Instructions)
		}
	}
	return golden
}

func writeGolden(t *testing.T, old *Golden, rows []Operation, skip []Kind) {
	t.Helper()
	golden := &Golden{Counted: Toolchain(), Operations: rows}
	if slices.Contains(skip, Instructions) {
		golden.Counted = old.Counted
	}
	var text strings.Builder
	if _, err := golden.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(goldenFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(goldenFile, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What makes an operation twice as long must double its count, whatever else
// the process does: grow the stack, allocate, have its goroutine preempted.
func TestInstructionsAddUp(t *testing.T) {
	if testing.Short() {
		t.Skip("counting takes seconds: run it without -short")
	}
	if err := CanCount(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	worker := buildWorker(t)
	count := func(o operation) float64 {
		f, err := o.figures(t.Context(), worker, true)
		if err != nil {
			t.Fatal(err)
		}
		return f[Instructions]
	}
	all := probes()
	once, twice := count(all[0]), count(all[1])
	if off := twice/once/2 - 1; math.Abs(off) > Instructions.Tolerance() || once < 1000 {
		t.Errorf("once: %v instructions, twice: %v, want the double", once, twice)
	}
}

// probes are one operation at two lengths.
func probes() []operation {
	work := func(times int) func() (prepare, run func()) {
		return func() (prepare, run func()) {
			return nil, func() {
				for range times * 200 {
					sink = make([]byte, 1000)
					sink[0] = deep(100)
				}
			}
		}
	}
	return []operation{
		{name: "probe/once", units: 1, runs: 1, bench: work(1)},
		{name: "probe/twice", units: 1, runs: 1, bench: work(2)},
	}
}

var sink []byte

// deep takes some stack.
func deep(n int) byte {
	var frame [64]byte
	if n == 0 {
		return frame[0]
	}
	frame[n%64] = deep(n - 1)
	return frame[n%63]
}

// A worker's panic is an error with what it said, and not a figure.
func TestAWorkerThatFailsIsTold(t *testing.T) {
	worker := buildWorker(t)
	_, err := operation{name: "probe/broken"}.figures(t.Context(), worker, false)
	if err == nil || !strings.Contains(err.Error(), "no such operation") {
		t.Errorf("%v", err)
	}
}
