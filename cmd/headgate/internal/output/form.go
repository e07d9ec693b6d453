// SPDX-License-Identifier: Apache-2.0

// Package output prints what commands found: for people, or as JSON or YAML for programs.
//
//	var o output.Form
//	o.Flags(cmd, "table")
//	…
//	return o.Print(cmd.OutOrStdout(), keys, func(w io.Writer) error { return table(w, keys) })
//
// Out of scope: what is printed.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// Form is the form that a command prints in. The first of its forms is for people.
type Form struct {
	form  string
	forms []string
}

// Text is the form for people, of a command that has no other.
func Text() Form { return Form{form: "text", forms: []string{"text"}} }

// Flags adds --output, whose value for people, the default, is forPeople.
func (o *Form) Flags(cmd *cobra.Command, forPeople string) {
	o.forms = []string{forPeople, "json", "yaml"}
	cmd.Flags().StringVarP(&o.form, "output", "o", forPeople, "`form` to print in: "+strings.Join(o.forms, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.forms, cobra.ShellCompDirectiveNoFileComp))
}

// ForPeople reports whether the form is the one for people.
func (o *Form) ForPeople() bool { return o.form == o.forms[0] }

// Print prints v for programs, or calls people.
func (o *Form) Print(w io.Writer, v any, people func(w io.Writer) error) error {
	switch o.form {
	case o.forms[0]:
		return people(w)
	case "json":
		return printJSON(w, v)
	case "yaml":
		var text bytes.Buffer
		if err := printJSON(&text, v); err != nil {
			return err
		}
		shown, err := yaml.JSONToYAML(text.Bytes())
		if err == nil {
			_, err = w.Write(shown)
		}
		return err
	}
	return fmt.Errorf("--output %s: use one of: %s", o.form, strings.Join(o.forms, ", "))
}

// PrintOne is Print of one of several things: in JSON, each is a line; in YAML, a document.
func (o *Form) PrintOne(w io.Writer, v any, people func(w io.Writer) error) error {
	switch o.form {
	case "json":
		return json.NewEncoder(w).Encode(v)
	case "yaml":
		if _, err := fmt.Fprintln(w, "---"); err != nil {
			return err
		}
	}
	return o.Print(w, v, people)
}

// Check refuses a form that does not exist, before there is anything to print.
func (o *Form) Check() error {
	if !slices.Contains(o.forms, o.form) {
		return o.Print(io.Discard, nil, nil)
	}
	return nil
}

// printJSON prints v for programs.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
