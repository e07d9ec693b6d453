// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestBatchesAreEveryOtherDump(t *testing.T) {
	dir := t.TempDir()
	for n, count := range []int{57_000_000, 100, 12, 101, 12, 99} {
		text := fmt.Sprintf("# callgrind format\nthread: 1\n\npositions: line\nevents: Ir\nsummary: %d\n\nfn=(1) f\n1 5\n", count)
		write(t, filepath.Join(dir, fmt.Sprintf("out.%d-01", n+1)), text)
	}
	write(t, filepath.Join(dir, "out.2-02"), "summary: 7777\n") // another thread's
	write(t, filepath.Join(dir, "out-01"), "summary: 8888\n")
	got, err := readBatches(dir)
	if err != nil || !slices.Equal(got, []float64{100, 101, 99}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestDumpsThatSayNothingAreErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := readBatches(dir); err == nil || !strings.Contains(err.Error(), "call Mark") {
		t.Error("no dumps:", err)
	}
	write(t, filepath.Join(dir, "out.2-01"), "events: Ir\n")
	if _, err := readBatches(dir); err == nil || !strings.Contains(err.Error(), "dump 2") {
		t.Error("a dump without a summary:", err)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
