// SPDX-License-Identifier: Apache-2.0

package limitsfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/filewatch"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/mesh"
)

// AlsoFlag adds the flag for the algorithms that only services have.
func AlsoFlag(cmd *cobra.Command, also *[]string) {
	cmd.Flags().StringSliceVar(also, "also", nil, "algorithms that your services register, separated by commas; redis if you use it")
}

// Checked says what is wrong with one file of limits.
type Checked struct {
	File     string    `json:"file"`
	Good     bool      `json:"good"` // services can use it; with --strict, it has no warnings either
	Rules    int       `json:"rules,omitempty"`
	Version  string    `json:"version,omitempty"`
	Mistakes []Mistake `json:"mistakes"`
	Warnings []Mistake `json:"warnings"`
	Notes    []string  `json:"notes,omitempty"` // about overrides
}

// Mistake is one thing that is wrong, and where. Without a place, Line is 0.
type Mistake struct {
	File    string `json:"file,omitempty"` // of a folder, the one in it
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`

	text string // all of it, for people
}

// mistakesOf are the errors that err joins.
func mistakesOf(err error) []Mistake {
	all := []Mistake{}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, mistakesOf(e)...)
		}
	} else if err != nil {
		m := Mistake{Message: err.Error(), text: err.Error()}
		if e, ok := errors.AsType[*dynamicconfig.Error](err); ok {
			m.File, m.Line, m.Column, m.Message = e.Name, e.Line, e.Column, e.Message
		}
		all = append(all, m)
	}
	return all
}

// Check checks files, and prints what it found in the form o. The error says how many have a
// mistake or, with strict, a warning.
func Check(cmd *cobra.Command, o *output.Form, files, also []string, strict bool) error {
	if err := o.Check(); err != nil {
		return err
	}
	broken := 0
	all := make([]Checked, len(files))
	for i, file := range files {
		_, all[i] = CheckFile(cmd.InOrStdin(), file, also)
		if all[i].Good = all[i].Good && (!strict || len(all[i].Warnings) == 0); !all[i].Good {
			broken++
		}
	}
	err := o.Print(cmd.OutOrStdout(), all, func(w io.Writer) error {
		for i := range all {
			all[i].Tell(cmd.ErrOrStderr())
			if c := &all[i]; c.Good {
				fmt.Fprintf(w, "%s: good, rules: %d, version: %s\n", c.File, c.Rules, c.Version)
			}
		}
		return nil
	})
	if err == nil && broken > 0 {
		err = fmt.Errorf("limits check: %d of %d files cannot be used", broken, len(files))
	}
	return err
}

// CheckFile checks one file. The Snapshot is nil if the file has a mistake.
func CheckFile(stdin io.Reader, file string, also []string) (*dynamicconfig.Snapshot, Checked) {
	var warnings []*dynamicconfig.Error
	s, err := loadChecked(stdin, file, func(s *dynamicconfig.Snapshot) error {
		warnings = s.Warnings()
		return CheckAlgorithms(s, also)
	})
	c := Checked{File: file, Good: err == nil, Mistakes: mistakesOf(err), Warnings: []Mistake{}}
	for _, w := range warnings {
		c.Warnings = append(c.Warnings, mistakesOf(w)...)
	}
	if err != nil {
		return nil, c
	}
	c.File, c.Rules, c.Version = s.Name(), len(s.Rules()), s.Version()
	c.Notes = overrideNotes(s, time.Now())
	return s, c
}

// Tell prints what is wrong, for people.
func (c *Checked) Tell(out io.Writer) {
	for _, m := range slices.Concat(c.Mistakes, c.Warnings) {
		fmt.Fprintln(out, m.text)
	}
	for _, note := range c.Notes {
		fmt.Fprintf(out, "%s: %s\n", c.File, note)
	}
	if len(c.Mistakes) > 0 {
		if data, err := filewatch.Read(c.File, dynamicconfig.MaxSize); err == nil {
			HintImport(out, c.File, data)
		}
	}
}

// CheckAlgorithms checks what parsing cannot: the names of algorithms, and what parameters they
// take. also are algorithms that only services have.
func CheckAlgorithms(s *dynamicconfig.Snapshot, also []string) error {
	registry := algorithm.Builtin()
	// Algorithms that the registry, which is of deciders, does not have.
	elsewhere := []string{limiter.Even, algorithm.NameExact, mesh.Name}
	known := func(name string) bool {
		_, err := registry.Lookup(name)
		return err == nil || slices.Contains(elsewhere, name) || slices.Contains(also, name)
	}
	err := s.Check(func(name string) bool {
		account, weigher, pair := strings.Cut(name, "/")
		return known(name) || pair && slices.Contains(algorithm.Accounts, account) && slices.Contains(also, weigher)
	})
	return errors.Join(err, s.CheckParameters(func(name string, parameters map[string]string) error {
		if slices.Contains(elsewhere, name) {
			return fmt.Errorf("%s takes none: remove them", name)
		}
		if !known(name) || slices.Contains(also, name) {
			return nil // s.Check says so, or it is one that only a service can ask
		}
		_, err := registry.Build(name, parameters)
		return err
	}))
}

// overrideNotes says which overrides of s have ended, and which change nothing. Neither is a
// mistake.
func overrideNotes(s *dynamicconfig.Snapshot, now time.Time) (notes []string) {
	for _, o := range s.OverrideStates(now) {
		what := fmt.Sprintf("override of %q", o.Key)
		if o.All {
			what = "override of all rules"
		}
		switch {
		case o.Ended:
			notes = append(notes, fmt.Sprintf("%s has ended at %s: remove it, or let the next `headgate limits override` do so", what, o.Until.UTC().Format(time.RFC3339)))
		case o.Idle != "":
			notes = append(notes, fmt.Sprintf("%s changes nothing: %s", what, o.Idle))
		}
	}
	return notes
}
