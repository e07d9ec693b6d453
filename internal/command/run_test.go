// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestErrorsAreOneLineUnlessTheyShowAFile(t *testing.T) {
	const pointed = "mine.yaml:3:11: duration: \"120\" has no unit\n    3 | duration: 120\n      |           ^"
	for text, want := range map[string]string{
		"one":      "one",
		"one\ntwo": "one; two",
		pointed:    pointed,
	} {
		if got := shown(errors.New(text)); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestErrorsNameTheProgramOnce(t *testing.T) {
	for _, text := range []string{"serve: no limits", "headgate: serve: no limits"} {
		if got := named("headgate", text); got != "headgate: serve: no limits" {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

func TestErrorsHaveExitCodes(t *testing.T) {
	err := errors.New("another was first")
	if got := Code(fmt.Errorf("set: %w", WithCode(err, 3))); got != 3 {
		t.Errorf("code %d, want 3", got)
	}
	if got := Code(err); got != 1 || !errors.Is(WithCode(err, 3), err) {
		t.Errorf("code %d of another error, want 1", got)
	}
}

// A flag that does not exist may be what the command takes by itself.
func TestAFlagThatIsNoneMayBeAnArgument(t *testing.T) {
	for use, want := range map[string]string{
		"back [VERSION]":             "unknown flag: --to; program back takes [VERSION] by itself, without a flag; `program back --help` has examples and the flags",
		"back":                       "unknown flag: --to; `program back --help` lists the flags",
		"back {FILE | --db DB} KEY":  "unknown flag: --to; `program back --help` lists the flags",
		"back {FILE | --db DB} [TO]": "unknown flag: --to; program back takes TO by itself, without a flag; `program back --help` has examples and the flags",
	} {
		root := Root(&cobra.Command{Use: "program"}, &cobra.Command{Use: use, RunE: func(*cobra.Command, []string) error { return nil }})
		root.SetArgs([]string{"back", "--to", "7"})
		if err := root.Execute(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", use, err, want)
		}
	}
	other := &cobra.Command{Use: "other", RunE: func(*cobra.Command, []string) error { return nil }}
	other.Flags().String("db", "", "")
	root := Root(&cobra.Command{Use: "program"}, other, &cobra.Command{Use: "reset KEY", RunE: func(*cobra.Command, []string) error { return nil }})
	root.SetArgs([]string{"reset", "--db", "x", "key"})
	if err := root.Execute(); err == nil || err.Error() != "unknown flag: --db; `program reset --help` lists the flags" {
		t.Errorf("a flag of another command: %v", err)
	}
}

func TestAFlagThatIsNeededIsMissing(t *testing.T) {
	for _, args := range []string{"make", "make --force"} {
		c := &cobra.Command{Use: "make", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
		c.Flags().Bool("force", false, "")
		c.Flags().String("to", "", "write into this `folder`")
		if err := c.MarkFlagRequired("to"); err != nil {
			t.Fatal(err)
		}
		root := Root(&cobra.Command{Use: "program"}, c)
		root.SetArgs(strings.Fields(args))
		const want = "program make needs --to FOLDER: write into this folder; `program make --help` has examples"
		if err := root.Execute(); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
