// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
)

// execute runs headgate with args, as main does.
func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return runtest.Run(t, newRoot(), nil, args...)
}

func TestHelpHasExamples(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"serve", "--help"}, {"limits", "--help"}, {"version", "--help"}} {
		out, _, err := execute(t, args...)
		if err != nil || !strings.Contains(out, "Examples:") {
			t.Errorf("%v: %v, no example in:\n%s", args, err, out)
		}
	}
}

func TestVersion(t *testing.T) {
	out, _, err := execute(t, "version")
	if err != nil || !strings.HasPrefix(out, "headgate ") || strings.Count(out, "\n") != 1 {
		t.Errorf("version prints %q, %v", out, err)
	}
}

func TestACommandThatDoesNotExistNamesTheOneThatIsMeant(t *testing.T) {
	for args, want := range map[string]string{
		"serv --limits limits.yaml": `there is no command "headgate serv"; did you mean serve?`,
		"simulate cron":             "headgate-lab simulate",
	} {
		if _, _, err := execute(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v, want %s", args, err, want)
		}
	}
}
