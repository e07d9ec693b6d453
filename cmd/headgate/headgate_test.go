// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
)

// execute runs headgate with args, as main does.
func execute(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	root := newRoot()
	var out, progress bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&progress)
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return out.String(), progress.String(), err
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
