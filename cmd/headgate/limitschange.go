// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/daemon"
)

// exitUnconfirmed is the exit code of a dangerous change that nobody confirmed.
const exitUnconfirmed = 4

// changing is what commands that change limits have in common.
type changing struct {
	limitsdb.DB

	author, message string
	base            int64
	dryRun, yes     bool
	also            []string // algorithms
	output          output.Form
	done            outcome
}

// outcome is what a change did, for programs.
type outcome struct {
	Stored  bool     `json:"stored"`            // false: there was nothing to change, or --dry-run
	Version int64    `json:"version,omitempty"` // the newest one after the change
	File    string   `json:"file,omitempty"`    // without a database
	Changes []change `json:"changes"`           // what the change is, also if it was not stored
}

// flags adds the flags, and has the outcome printed after cmd's own RunE.
func (c *changing) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	c.Flags(flags) // those of the database
	flags.StringVarP(&c.message, "message", "m", "", "the `reason`, for the history")
	flags.StringVar(&c.author, "author", "", "the `name` of the author, for the history (default the user that runs this)")
	flags.Int64Var(&c.base, "base", 0, "refuse the change if the newest version is not this `number` (default whatever is the newest now)")
	flags.BoolVar(&c.dryRun, "dry-run", false, "print what would change, and change nothing")
	flags.BoolVarP(&c.yes, "yes", "y", false, "do what is dangerous without asking")
	limitsfile.AlsoFlag(cmd, &c.also)
	_ = cmd.RegisterFlagCompletionFunc("base", c.CompleteVersions)
	c.output.Flags(cmd, "text")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.done = outcome{Changes: []change{}}
		if err := c.output.Check(); err != nil {
			return err
		}
		if err := run(cmd, args); err != nil {
			return err
		}
		return c.output.Print(cmd.OutOrStdout(), c.done, func(io.Writer) error { return nil })
	}
}

// people is where the outcome is said in words, which goes nowhere if it is printed for programs.
func (c *changing) people(cmd *cobra.Command) io.Writer {
	if c.output.ForPeople() {
		return cmd.OutOrStdout()
	}
	return io.Discard
}

// progress is where a change that takes a while says how it goes.
func (c *changing) progress(cmd *cobra.Command) io.Writer {
	if c.output.ForPeople() {
		return cmd.OutOrStdout()
	}
	return cmd.ErrOrStderr()
}

// reasoned refuses a change without a reason.
func (c *changing) reasoned() error {
	if c.message == "" && !c.dryRun {
		return errors.New("say why, with --message")
	}
	return nil
}

// in changes the text of the newest version, or of the file that args begin with if there
// is no database. It gives text the other arguments.
func (c *changing) in(cmd *cobra.Command, args []string, text func(old string, args []string) (string, error)) error {
	if c.Named() {
		return c.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
			if err := errors.Join(c.CheckDirectory(), c.reasoned()); err != nil {
				return err
			}
			on, err := limitsdb.Newest(ctx, db)
			if err != nil {
				return err
			}
			changed, err := text(on.Text, args)
			if err != nil {
				return c.refused(cmd, on.Name(), err)
			}
			return c.store(ctx, cmd, db, on, changed)
		})
	}
	name := strings.TrimPrefix(cmd.CommandPath(), "headgate ")
	if len(args) == 0 {
		return fmt.Errorf("%s: name a file, or a database with --limits-db", name)
	}
	if err := c.inFile(cmd, args[0], func(old string) (string, error) { return text(old, args[1:]) }); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// inFile changes the text of a file.
func (c *changing) inFile(cmd *cobra.Command, file string, text func(old string) (string, error)) error {
	path, err := filepath.EvalSymlinks(file)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no such file, %q: name the file of limits first, or a database with --limits-db, or a decider that has one with --admin", file)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	_, data, err := limitsfile.Read(nil, path)
	if err != nil {
		return err
	}
	changed, err := text(string(data))
	if err != nil {
		rename(err, file)
		return c.refused(cmd, file, err)
	}
	old, err := dynamicconfig.Parse(file, data)
	if err != nil {
		return c.refused(cmd, file, err)
	}
	s, err := c.checked(cmd, old, file, changed)
	if err != nil {
		return err
	}
	if err := c.review(cmd, old, s, false); err != nil {
		return err
	}
	c.done.File = file
	if c.dryRun || changed == string(data) {
		fmt.Fprintf(c.people(cmd), "%s: nothing was changed\n", file)
		return nil
	}
	if err := replaceFile(path, changed, info.Mode().Perm()); err != nil {
		return err
	}
	c.done.Stored = true
	fmt.Fprintf(c.people(cmd), "%s: written\n", file)
	return nil
}

// replaceFile writes a new file and renames it, so that nobody reads half of it.
func replaceFile(path, text string, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".headgate-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// refused prints mistakes that have a place, and says that nothing was changed.
func (c *changing) refused(cmd *cobra.Command, what string, err error) error {
	if _, ok := errors.AsType[*dynamicconfig.Error](err); !ok {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), err)
	return fmt.Errorf("%s cannot be changed so, and nothing was changed", what)
}

// rename has the mistakes of err be in the text with a name: package edit does not know it.
func rename(err error, name string) {
	switch e := err.(type) { //nolint:errorlint // it looks at each part of err itself
	case *dynamicconfig.Error:
		e.Name = name
	case interface{ Unwrap() error }:
		rename(e.Unwrap(), name)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			rename(one, name)
		}
	}
}

// signs is who makes the change: --author, or the user that runs this.
func (c *changing) signs() (string, error) {
	if c.author != "" {
		return c.author, nil
	}
	u, err := user.Current()
	if err != nil {
		return "", fmt.Errorf("say who you are, with --author: %w", err)
	}
	return u.Username, nil
}

// checked parses text, and prints its mistakes. Algorithms that old has are known.
func (c *changing) checked(cmd *cobra.Command, old *dynamicconfig.Snapshot, name, text string) (*dynamicconfig.Snapshot, error) {
	also := c.also
	if old != nil {
		also = slices.Concat(also, old.Algorithms())
	}
	s, err := dynamicconfig.ParseChecked("limits", []byte(text), func(s *dynamicconfig.Snapshot) error { return limitsfile.CheckAlgorithms(s, also) })
	if err != nil {
		return nil, c.refused(cmd, name, err)
	}
	return s, nil
}

// store makes a text the newest version, on top of the version that it was made from.
func (c *changing) store(ctx context.Context, cmd *cobra.Command, db history.Store, on history.Version, text string) error {
	old, err := on.Parse()
	if err != nil { // the change may be the remedy
		old = nil
	}
	s, err := c.checked(cmd, old, on.Name(), text)
	if err != nil {
		return err
	}
	return c.storeChecked(ctx, cmd, db, on, s)
}

// storeChecked is store for a text that was checked. why are dangers of the way in which
// it came.
func (c *changing) storeChecked(ctx context.Context, cmd *cobra.Command, db history.Store, on history.Version, s *dynamicconfig.Snapshot, why ...string) error {
	out := c.people(cmd)
	c.done.Version = on.Number
	if c.base != 0 && c.base != on.Number {
		return &history.Conflict{Base: c.base, Newest: on.Number}
	}
	author, err := c.signs()
	if err != nil {
		return err
	}
	if on.Number > 0 && on.Text == s.Text() {
		fmt.Fprintf(out, "nothing to change: version %d has this text\n", on.Number)
		return nil
	}
	old, err := on.Parse()
	if err != nil {
		fmt.Fprintf(out, "%s cannot be used by this release, and is replaced\n", on.Name())
		old = nil
	}
	if err := c.review(cmd, old, s, on.Number == 0, why...); err != nil {
		return err
	}
	if c.dryRun {
		fmt.Fprintf(out, "nothing was changed: version %d stays the newest\n", on.Number)
		return nil
	}
	v, err := db.Append(ctx, history.Change{Base: on.Number, Text: s.Text(), Author: author, Message: c.message})
	if err != nil {
		return err
	}
	c.done.Stored, c.done.Version = true, v.Number
	fmt.Fprintf(out, "version %d is stored\n", v.Number)
	return nil
}

// review prints what differs in new from old, which is nil if it is broken, and asks
// whether what is dangerous is meant. A first version is not: no host goes by what was there
// before it.
func (c *changing) review(cmd *cobra.Command, old, new *dynamicconfig.Snapshot, first bool, why ...string) error {
	if old != nil {
		changes := dynamicconfig.Diff(old, new)
		c.done.Changes = changesOf(changes)
		if len(changes) == 0 {
			fmt.Fprintln(c.people(cmd), "the limits mean the same: only comments or layout change")
		}
		for _, change := range changes {
			fmt.Fprintln(c.people(cmd), change)
		}
		if !first {
			why = append(why, dangers(old, new, changes)...)
		}
	}
	known := make(map[string]bool)
	if old != nil {
		for _, w := range old.Warnings() {
			known[w.Message] = true
		}
	}
	for _, w := range new.Warnings() {
		if !known[w.Message] {
			fmt.Fprintln(cmd.ErrOrStderr(), w)
		}
	}
	return confirm(cmd, c.yes || c.dryRun, why...)
}

// confirm says what is dangerous, and asks whether it is meant, unless yes says so.
func confirm(cmd *cobra.Command, yes bool, why ...string) error {
	for _, danger := range why {
		fmt.Fprintf(cmd.ErrOrStderr(), "dangerous: %s\n", danger)
	}
	if len(why) == 0 || yes {
		return nil
	}
	answer, err := ask(cmd, "Do it? [y/N] ")
	if err != nil || !strings.HasPrefix(strings.ToLower(answer), "y") {
		return command.WithCode(errors.New("nothing was changed, because the change was not confirmed: answer y, or add --yes"), exitUnconfirmed)
	}
	return nil
}

// dangers says what in changes may hurt at once.
func dangers(old, new *dynamicconfig.Snapshot, changes []dynamicconfig.Change) (why []string) {
	rulesOf := func(s *dynamicconfig.Snapshot) map[string]dynamicconfig.Rule {
		all := make(map[string]dynamicconfig.Rule)
		for _, r := range s.Rules() {
			all[r.Key] = r
		}
		return all
	}
	if len(changes) == 0 {
		return nil
	}
	before, after := rulesOf(old), rulesOf(new)
	for _, c := range changes {
		was, is := before[c.Name], after[c.Name]
		switch {
		case c.Section == "unmatched" && new.Unmatched() == dynamicconfig.UnmatchedDeny:
			why = append(why, "all events of keys without a rule are refused")
		case c.Section == "overrides" && c.Name == "" && c.Kind != dynamicconfig.Removed && bypassesAll(new):
			why = append(why, "all events of all keys are let through")
		case c.Section != "limits" || c.Kind == dynamicconfig.Reordered:
		case c.Kind == dynamicconfig.Removed && was.IsGlob():
			why = append(why, fmt.Sprintf("the rule %q is removed, which is for many keys", c.Name))
		case c.Kind == dynamicconfig.Changed && was.InFlight == is.InFlight && is.Limit < was.Limit/2:
			why = append(why, fmt.Sprintf("the limit of %q becomes less than half: %s → %s", c.Name, limitsfile.LimitOf(&was), limitsfile.LimitOf(&is)))
		}
	}
	return why
}

// bypassesAll reports whether s has an override that lets all events through.
func bypassesAll(s *dynamicconfig.Snapshot) bool {
	return slices.ContainsFunc(s.Overrides(), func(o dynamicconfig.Override) bool { return o.All && o.Bypass })
}

// ask asks a question on stderr, and reads one line of stdin.
func ask(cmd *cobra.Command, question string) (answer string, err error) {
	fmt.Fprint(cmd.ErrOrStderr(), question)
	var line []byte
	for one := make([]byte, 1); ; { // no more than the line: an editor may read the rest
		n, err := cmd.InOrStdin().Read(one)
		switch {
		case n == 1 && one[0] == '\n':
			return strings.TrimSpace(string(line)), nil
		case n == 1:
			line = append(line, one[0])
		case err == io.EOF && len(line) > 0:
			return strings.TrimSpace(string(line)), nil
		case err != nil:
			fmt.Fprintln(cmd.ErrOrStderr())
			return "", err
		}
	}
}
