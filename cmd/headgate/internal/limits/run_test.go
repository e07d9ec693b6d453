// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/internal/command"
)

// program is a headgate that has only the commands of this package.
func program() *cobra.Command { return command.Root(&cobra.Command{Use: "headgate"}, New()) }

// execute runs headgate with args.
func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runtest.Run(t, program(), nil, args...)
}

// executeWith runs headgate with what comes in on stdin.
func executeWith(t *testing.T, stdin string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runtest.Run(t, program(), strings.NewReader(stdin), args...)
}

// answering runs headgate limits with args; the answers come in on stdin, as from a file.
func answering(t *testing.T, answers string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	in, err := os.Open(runtest.File(t, "answers", answers))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	return runtest.Run(t, program(), in, append([]string{"limits"}, args...)...)
}

// must runs headgate limits with args, which succeeds, and returns what it prints.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, said, err := execute(t, append([]string{"limits"}, args...)...)
	if err != nil {
		t.Fatalf("limits %v: %v\n%s", args, err, said)
	}
	return out
}

// refused runs headgate limits with args, which fails, and returns what it says.
func refused(t *testing.T, want string, args ...string) string {
	t.Helper()
	out, said, err := execute(t, append([]string{"limits"}, args...)...)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("limits %v: %v, %s; want %q", args, err, out, want)
	}
	return said
}
