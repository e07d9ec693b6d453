// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/dynamicconfig"
	folder "github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/filewatch"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/mesh"
)

func newLimits() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "Check, show and change limits, and keep their history",
		Long: `limits reads files of limits as services do, and changes the limits in a file or in a database,
which daemons follow. No daemon needs to run for that. With --admin, which dry-run, reset and
suggest need, a daemon is asked instead. docs/config.md describes files and databases. A FILE of -
is what comes in on stdin. Commands that read a FILE also read a folder, whose *.yaml files are
one configuration.

The commands exit with 0 after success, also if there was nothing to change; with 1 after an error;
with 2 if diff --exit-code finds differences; with 3 if another change came first, so that yours
must be made again; and with 4 if nobody confirmed what is dangerous.`,
		Example: `  headgate limits check limits.yaml
  headgate limits show limits.yaml frontend:orders
  headgate limits import --from doorman resources.yaml -o limits.yaml
  headgate limits apply --limits-db /var/lib/headgate limits.yaml -m "first limits"
  headgate limits set --limits-db /var/lib/headgate frontend:orders 200/s -m "for the sale"
  headgate limits rollback --limits-db /var/lib/headgate`,
		Args: command.NoSuch,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLimitsCheck(), newLimitsList(), newLimitsGet(), newLimitsShow(), newLimitsDiff(), newLimitsImport(),
		newLimitsSet(), newLimitsRm(), newLimitsEdit(), newLimitsDryRun(), newLimitsSuggest(), newLimitsApply(), newLimitsRollback(),
		newLimitsOverride(), newLimitsBypass(), newLimitsOverrides(), newLimitsReset(),
		newLimitsHistory(), newLimitsExport(), newLimitsPrune())
	return cmd
}

func newLimitsCheck() *cobra.Command {
	var also []string
	var strict bool
	var o output.Form
	cmd := &cobra.Command{
		Use:     "check FILE...",
		Aliases: []string{"lint"},
		Short:   "Say what is wrong with files of limits, and where",
		Long: `check reads each file and says of each mistake where it is and what to do: unknown fields,
numbers out of range, bad globs, algorithms that headgate does not have, and parameters
that they do not take. Name algorithms of your own with --also, and redis too if you use it.

It exits with 1 if any file has a mistake. It also shows what is legal and surely not meant:
globs that are never used, because another stands before them and matches all of their keys,
keys with characters that look like others, or that cannot be seen, and a max_cost that no event
may have, because its debt would outlast max_debt. With --strict, these are mistakes too.`,
		Example: `  headgate limits check limits.yaml
  headgate limits check --also by-region,by-tier a.yaml b.yaml
  headgate limits check -o json limits.yaml
  generate-limits | headgate limits check -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error { return checkLimits(cmd, &o, files, also, strict) },
	}
	alsoFlag(cmd, &also)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 also for what is legal and surely not meant")
	o.Flags(cmd, "text")
	return cmd
}

func alsoFlag(cmd *cobra.Command, also *[]string) {
	cmd.Flags().StringSliceVar(also, "also", nil, "algorithms that your services register, separated by commas; redis if you use it")
}

// checked is what is wrong with one file of limits.
type checked struct {
	File     string    `json:"file"`
	Good     bool      `json:"good"` // services can use it; with --strict, it has no warnings either
	Rules    int       `json:"rules,omitempty"`
	Version  string    `json:"version,omitempty"`
	Mistakes []mistake `json:"mistakes"`
	Warnings []mistake `json:"warnings"`
	Notes    []string  `json:"notes,omitempty"` // about overrides
}

// mistake is one thing that is wrong, and where. Without a place, Line is 0.
type mistake struct {
	File    string `json:"file,omitempty"` // of a folder, the one in it
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`

	text string // all of it, for people
}

// mistakesOf are the errors that err joins.
func mistakesOf(err error) []mistake {
	all := []mistake{}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			all = append(all, mistakesOf(e)...)
		}
	} else if err != nil {
		m := mistake{Message: err.Error(), text: err.Error()}
		if e, ok := errors.AsType[*dynamicconfig.Error](err); ok {
			m.File, m.Line, m.Column, m.Message = e.Name, e.Line, e.Column, e.Message
		}
		all = append(all, m)
	}
	return all
}

// checkLimits checks files, and prints what it found in the form o.
func checkLimits(cmd *cobra.Command, o *output.Form, files, also []string, strict bool) error {
	if err := o.Check(); err != nil {
		return err
	}
	broken := 0
	all := make([]checked, len(files))
	for i, file := range files {
		_, all[i] = checkFile(cmd.InOrStdin(), file, also)
		if all[i].Good = all[i].Good && (!strict || len(all[i].Warnings) == 0); !all[i].Good {
			broken++
		}
	}
	err := o.Print(cmd.OutOrStdout(), all, func(w io.Writer) error {
		for i := range all {
			all[i].tell(cmd.ErrOrStderr())
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

// checkFile checks one file. The Snapshot is nil if it has a mistake.
func checkFile(stdin io.Reader, file string, also []string) (*dynamicconfig.Snapshot, checked) {
	var warnings []*dynamicconfig.Error
	s, err := loadChecked(stdin, file, func(s *dynamicconfig.Snapshot) error {
		warnings = s.Warnings()
		return checkAlgorithms(s, also)
	})
	c := checked{File: file, Good: err == nil, Mistakes: mistakesOf(err), Warnings: []mistake{}}
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

// tell says what is wrong, for people.
func (c *checked) tell(out io.Writer) {
	for _, m := range slices.Concat(c.Mistakes, c.Warnings) {
		fmt.Fprintln(out, m.text)
	}
	for _, note := range c.Notes {
		fmt.Fprintf(out, "%s: %s\n", c.File, note)
	}
	if len(c.Mistakes) > 0 {
		if data, err := filewatch.Read(c.File, dynamicconfig.MaxSize); err == nil {
			hintImport(out, c.File, data)
		}
	}
}

// checkAlgorithms checks what parsing cannot: the names of algorithms, and
// what parameters they take.
func checkAlgorithms(s *dynamicconfig.Snapshot, also []string) error {
	registry := algorithm.Builtin()
	// Those that no decider of the registry has.
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
			return nil // told above, or one that only a service can ask
		}
		_, err := registry.Build(name, parameters)
		return err
	}))
}

// loadLimits reads and parses one file of limits, or a folder of them.
func loadLimits(stdin io.Reader, file string) (*dynamicconfig.Snapshot, error) {
	return loadChecked(stdin, file, func(*dynamicconfig.Snapshot) error { return nil })
}

// loadChecked is loadLimits with a check.
func loadChecked(stdin io.Reader, file string, check func(*dynamicconfig.Snapshot) error) (*dynamicconfig.Snapshot, error) {
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		s, err := folder.New(file).Load(context.Background())
		if err == nil {
			err = check(s)
		}
		return s, err
	}
	name, data, err := readConfig(stdin, file)
	if err != nil {
		return nil, err
	}
	return dynamicconfig.ParseChecked(name, data, check)
}

// readConfig reads a file, or stdin for -, and what to call it in messages.
// It reads no more than shows that the file is too big.
func readConfig(stdin io.Reader, file string) (name string, data []byte, err error) {
	in := stdin
	if name = "stdin"; file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return file, nil, err
		}
		defer func() { _ = f.Close() }() // it was only read
		name, in = file, f
	}
	data, err = io.ReadAll(io.LimitReader(in, dynamicconfig.MaxLargeSize+1))
	if err != nil {
		err = fmt.Errorf("read %s: %w", name, err)
	}
	return name, data, err
}
