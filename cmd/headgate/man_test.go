// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Each command that help shows has a page, with its examples and flags.
func TestEachCommandHasAManualPage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	if _, said, err := execute(t, "man", "--to", dir); err != nil {
		t.Fatal(err, said)
	}
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		if !cmd.IsAvailableCommand() && cmd.HasParent() {
			return
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			return
		}
		for _, want := range []string{`"Sep 2001"`, ".SH NAME", ".SH OPTIONS", cmd.Short} {
			if want != "" && !strings.Contains(strings.ReplaceAll(string(text), `\-`, "-"), want) {
				t.Errorf("%s has no %q:\n%s", name, want, text)
			}
		}
		for _, sub := range cmd.Commands() {
			look(sub)
		}
	}
	look(newRoot())
	refused := func(args ...string) {
		t.Helper()
		if _, _, err := execute(t, args...); err == nil {
			t.Errorf("%v wrote pages", args)
		}
	}
	refused("man")
	refused("man", "--to", filepath.Join(dir, "headgate.1"))
}
