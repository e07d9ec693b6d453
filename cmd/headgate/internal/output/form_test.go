// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEachFormIsPrinted(t *testing.T) {
	v := map[string]any{"key": "a"}
	people := func(w io.Writer) error {
		_, err := fmt.Fprintln(w, "the key a")
		return err
	}
	for form, want := range map[string][2]string{
		"table": {"the key a\n", "the key a\n"},
		"json":  {"{\n  \"key\": \"a\"\n}\n", `{"key":"a"}` + "\n"},
		"yaml":  {"key: a\n", "---\nkey: a\n"},
	} {
		var o Form
		cmd := new(cobra.Command)
		o.Flags(cmd, "table")
		if err := cmd.ParseFlags([]string{"-o", form}); err != nil {
			t.Fatal(err)
		}
		var one, each bytes.Buffer
		if err := o.Print(&one, v, people); err != nil || one.String() != want[0] || o.Check() != nil {
			t.Errorf("%s: %v, %q, want %q", form, err, one.String(), want[0])
		}
		if err := o.PrintOne(&each, v, people); err != nil || each.String() != want[1] {
			t.Errorf("%s, one of several: %v, %q, want %q", form, err, each.String(), want[1])
		}
		if o.ForPeople() != (form == "table") {
			t.Errorf("%s is for people: %t", form, o.ForPeople())
		}
	}
}

func TestAFormThatDoesNotExistIsRefused(t *testing.T) {
	var o Form
	cmd := new(cobra.Command)
	o.Flags(cmd, "text")
	if err := cmd.ParseFlags([]string{"-o", "xml"}); err != nil {
		t.Fatal(err)
	}
	if err := o.Check(); err == nil || !strings.Contains(err.Error(), "--output xml: use one of: text, json, yaml") {
		t.Error(err)
	}
}
