// SPDX-License-Identifier: Apache-2.0

package main

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

// output is the form that a command prints in: its first form is for people.
type output struct {
	form  string
	forms []string
}

func (o *output) flags(cmd *cobra.Command, forPeople string) {
	o.forms = []string{forPeople, "json", "yaml"}
	cmd.Flags().StringVarP(&o.form, "output", "o", forPeople, "`form` to print in: "+strings.Join(o.forms, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(o.forms, cobra.ShellCompDirectiveNoFileComp))
}

// forPeople reports whether the form is the one for people.
func (o *output) forPeople() bool { return o.form == o.forms[0] }

// print prints v for programs, or calls people.
func (o *output) print(w io.Writer, v any, people func(w io.Writer) error) error {
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

// check refuses a form that does not exist, before there is anything to print.
func (o *output) check() error {
	if !slices.Contains(o.forms, o.form) {
		return o.print(io.Discard, nil, nil)
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
