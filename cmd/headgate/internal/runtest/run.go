// SPDX-License-Identifier: Apache-2.0

// Package runtest runs commands in a test's own process.
//
//	out, said, err := runtest.Run(t, newRoot(), nil, "limits", "check", runtest.File(t, "limits.yaml", text))
//
// Out of scope: programs that run as processes of their own. The tests of cmd/headgate start those.
package runtest

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Run runs root with args as a program does, and returns what it prints. If stdin is nil, the
// command has the input of the test.
func Run(t testing.TB, root *cobra.Command, stdin io.Reader, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, said bytes.Buffer
	if stdin != nil {
		root.SetIn(stdin)
	}
	root.SetOut(&out)
	root.SetErr(&said)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), said.String(), err
}

// File returns the path of a new file with this text. Its last element is name.
func File(t testing.TB, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Expect says which of the texts in want are missing in got, which is what was done.
func Expect(t testing.TB, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: no %q in\n%s", what, w, got)
		}
	}
}
