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

// Test runs tests of the package in the working directory as if the code had the defect, and
// returns what they write. args go to go test. root is the module's folder.
func (d Defect) Test(t *testing.T, root string, args ...string) (out string, err error) {
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
