// SPDX-License-Identifier: Apache-2.0

package swarm

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testrun"
)

// Each defect is one that the code had, or might have. It replaces a text of one file,
// which the compiler reads instead of the file.
var defects = []struct {
	name, file, text, with string
	law                    string
}{
	{
		"a key that is asked for has a full bucket each time", "aggregator/internal/account/pool/taking.go",
		"\tk.bucket.Lower(now, k.pool)\n\treturn &k.bucket\n", "\treturn &k.bucket\n", "bound:",
	},
	{
		"what is admitted costs nothing", "internal/exactbucket/bucket.go",
		"\tb.add(n)\n\treturn Verdict{OK: true", "\treturn Verdict{OK: true", "settles:",
	},
	{
		"a host that heard of others late stays in debt", "limiter/mesh/receive.go",
		"e.giveBack(at, r.alone", "e.giveBack(at, 0*r.alone", "starves:",
	},
	{
		"a limiter counts what it admits for the owner twice", "limiter/inspect.go",
		"\treturn allowed + usage.Allowed + elsewhere, ", "\treturn allowed + usage.Allowed + 2*elsewhere, ", "counts:",
	},
}

func TestDefectsBreakLaws(t *testing.T) {
	if !testrun.Long() {
		t.Skip("compiles the tree once for each defect: " + testrun.LongEnv + "=1 runs it")
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range defects {
		t.Run(d.name, func(t *testing.T) {
			file, dir := filepath.Join(root, d.file), t.TempDir()
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), d.text); n != 1 {
				t.Fatalf("%s has the text %d times, want once", d.file, n)
			}
			broken, overlay := filepath.Join(dir, "broken.go"), filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(broken, []byte(strings.Replace(string(source), d.text, d.with, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: broken}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(overlay, replace, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-overlay", overlay, "-run", "TestSwarmKeepsTheLaws", ".", //nolint:gosec // the paths are ours
				"-clusters", "400", "-rapid.seed", "1", "-rapid.shrinktime", "1s").CombinedOutput()
			if err == nil || !strings.Contains(string(out), d.law) {
				t.Errorf("no cluster breaks the law %s %v\n%s", d.law, err, out)
			}
			if line, _, ok := strings.Cut(string(out), "headgate-lab"); ok {
				t.Log(line)
			}
		})
	}
}
