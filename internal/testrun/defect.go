// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Defect is one that the code had, or might have. With it, a file of the module has
// With in the place of Text, which it has once.
type Defect struct{ File, Text, With string }

// Search is how tests find a Defect.
type Search struct {
	Name string
	Defect

	// Args go to go test, after its flags. Found is part of what the tests write when they find the defect.
	Args  []string
	Found string
}

// Run is a test of t for each Search, which only the long form has: it fails if the tests do not fail
// when they run against the code with the defect. root is the module's folder, seen from the
// package's.
func (s Search) Run(t *testing.T, root string) {
	t.Helper()
	if !Long() {
		t.Skip("compiles the tree once for each defect: " + LongEnv + "=1 runs it")
	}
	t.Run(s.Name, func(t *testing.T) {
		out, err := s.test(t, root, s.Args...)
		_, found, ok := strings.Cut(out, s.Found)
		if err == nil || !ok {
			t.Fatalf("%q was not written, so nothing finds it: %v\n%s", s.Found, err, out)
		}
		found, _, _ = strings.Cut(found, "\n")
		t.Log(s.Found + found)
	})
}

// test runs go test with args in the working directory as if the code had the defect, and
// returns what the tests write.
func (d Defect) test(t *testing.T, root string, args ...string) (out string, err error) {
	t.Helper()
	root, err = filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	file, dir := filepath.Join(root, d.File), t.TempDir()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(source), d.Text); n != 1 {
		t.Fatalf("%s has the text %d times, want once", d.File, n)
	}
	broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(broken, []byte(strings.Replace(string(source), d.Text, d.With, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: broken}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-overlay", overlay}, args...)...).CombinedOutput() //nolint:gosec // the paths are ours
	return string(text), err
}
