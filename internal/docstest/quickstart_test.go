// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/testrun"
)

// runWhole are pages all of whose commands TestTheQuickStartRuns runs.
var runWhole = []string{"docs/quickstart.md"}

// install is the one command of the page that would change this machine: the test has
// built the program.
const install = "go install github.com/headgate/headgate/cmd/headgate@latest\n"

// TestTheQuickStartRuns makes the files of docs/quickstart.md, runs its commands in one
// shell, from top to bottom, and looks for what the page says that they print. Only the
// port is another, because it may be in use.
func TestTheQuickStartRuns(t *testing.T) {
	for _, program := range []string{"bash", "openssl", "curl", "python3"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatal(err)
			}
			t.Skipf("the page needs %s: %v", program, err)
		}
	}
	_, all := repository(t)
	page := all[slices.IndexFunc(all, func(p page) bool { return p.path == runWhole[0] })]
	host, port, _ := strings.Cut(addresstest.Free(t, 1)[0], ":")
	move := strings.NewReplacer("127.0.0.1", host, "7935", port)
	dir, script := t.TempDir(), "set -eu\nset -m\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"
	named := regexp.MustCompile(`^# ([a-z]+\.(?:yaml|py))\n`)
	for _, f := range page.fences {
		text := move.Replace(f.text)
		if name := named.FindStringSubmatch(text); name != nil {
			write(t, filepath.Join(dir, name[1]), text)
			continue
		}
		if f.lang == "sh" && text != install {
			script += strings.ReplaceAll(text, "headgate serve --config headgate.yaml &", "headgate serve --config headgate.yaml --listen 127.0.0.1:0 --edge 127.0.0.1:0 --lame-duck 0s &")
		}
	}
	shell := exec.CommandContext(t.Context(), "bash", "-c", script)
	shell.Dir = dir
	shell.Env = append(os.Environ(), "PATH="+filepath.Dir(testrun.Headgate(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	var logged strings.Builder // apart: the daemon logs while others print
	shell.Stderr = &logged
	out, err := shell.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, logged.String())
	}
	for _, want := range []string{
		"limits.yaml: good", "\nok\n", `"allowed":true`, `"status":403`, "reserved 800, used 512",
		"version 1 is stored", "nothing was changed: version 1", "rule \"login:*\": burst 3 → 20\nversion 2 is stored", "burst 20 → 3\nversion 3 is stored",
		"roll back to version 1\n2 ", "the office logs in at nine\n1 ",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("nothing says %q:\n%s", want, out)
		}
	}
}
