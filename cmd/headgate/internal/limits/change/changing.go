// SPDX-License-Identifier: Apache-2.0

package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
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

// exitUnconfirmed is the exit code of a dangerous change that was not confirmed.
const exitUnconfirmed = 4

// changing is what the commands that change limits have in common.
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

// people returns where the command says in words what it did: nowhere if it prints for programs.
func (c *changing) people(cmd *cobra.Command) io.Writer {
	if c.output.ForPeople() {
		return cmd.OutOrStdout()
	}
	return io.Discard
}

// progress returns where a change that takes a while says how it goes.
func (c *changing) progress(cmd *cobra.Command) io.Writer {
	if c.output.ForPeople() {
		return cmd.OutOrStdout()
	}
	return cmd.ErrOrStderr()
}

// reasoned refuses a change without a reason.
func (c *changing) reasoned() error {
	if strings.TrimSpace(c.message) == "" && !c.dryRun {
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
			if err := on.Intact(); err != nil {
				return err
			}
			old := usable(on)
			changed, err := text(on.Text, args)
			if err != nil {
				return c.refused(cmd, on.Name(), err)
			}
			s, err := c.checked(cmd, old, on.Name(), changed)
			if err != nil {
				return err
			}
			return c.store(ctx, cmd, db, on, old, s)
		})
	}
	name := command.PathOf(cmd)
	if len(args) == 0 {
		return fmt.Errorf("%s: name a file, or a database with --limits-db", name)
	}
	if err := c.inFile(cmd, args[0], func(old string) (string, error) { return text(old, args[1:]) }); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// refused prints mistakes that have a place, and says that nothing was changed.
func (c *changing) refused(cmd *cobra.Command, what string, err error) error {
	if _, ok := errors.AsType[*dynamicconfig.Error](err); !ok {
		return err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), err)
	return fmt.Errorf("%s cannot be changed so, and nothing was changed", what)
}

// signs returns the author of the change: --author, or the user that runs this.
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

// checked parses text, and prints its mistakes. The algorithms that old names count as known.
func (c *changing) checked(cmd *cobra.Command, old *dynamicconfig.Snapshot, name, text string) (*dynamicconfig.Snapshot, error) {
	also := c.also
	if old != nil {
		also = slices.Concat(also, old.Algorithms())
	}
	in := "limits"
	if !c.Named() {
		in = name // a file
	}
	s, err := dynamicconfig.ParseChecked(in, []byte(text), func(s *dynamicconfig.Snapshot) error { return limitsfile.CheckAlgorithms(s, also) })
	if err != nil {
		return nil, c.refused(cmd, name, err)
	}
	return s, nil
}

// usable returns the limits of v, or nil if this release cannot use them: a change may be the remedy.
func usable(v history.Version) *dynamicconfig.Snapshot {
	s, err := v.Parse()
	if err != nil {
		return nil
	}
	return s
}

// store makes s, which was checked, the newest version, on top of the version that it was made from, whose
// limits are old, or nil if they are not usable. why are the dangers that only the caller knows.
func (c *changing) store(ctx context.Context, cmd *cobra.Command, db history.Store, on history.Version, old, s *dynamicconfig.Snapshot, why ...string) error {
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
	if old == nil {
		fmt.Fprintf(out, "%s cannot be used, and is replaced\n", on.Name())
	}
	change := history.Change{Base: on.Number, Seen: on.Fingerprint, Text: s.Text(), Author: author, Message: c.message}
	try := func() error {
		if t, ok := db.(history.Trier); ok {
			return t.Try(ctx, change)
		}
		return nil
	}
	differs, err := c.review(cmd, old, s, on.Number == 0, try, why...)
	if err != nil {
		return err
	}
	if c.dryRun {
		fmt.Fprintf(out, "%snothing was changed: version %d stays the newest\n", differs, on.Number)
		return nil
	}
	v, err := db.Append(ctx, change)
	if err != nil {
		return err
	}
	c.done.Stored, c.done.Version = true, v.Number
	fmt.Fprintf(out, "%sversion %d is stored\n", differs, v.Number)
	return nil
}

// review asks whether what is dangerous in the change from old to new is meant, and returns lines
// that say what differs, for after the change: before it, they would say that it was made. If
// review asks, it prints them itself, and returns none. old is nil if it cannot be parsed. The first
// version has no dangers of its own: no host used limits before it. A change that try refuses is not asked about, and
// a dry run of it fails.
func (c *changing) review(cmd *cobra.Command, old, new *dynamicconfig.Snapshot, first bool, try func() error, why ...string) (differs string, err error) {
	if old != nil {
		changes := dynamicconfig.Diff(old, new)
		c.done.Changes = changesOf(changes)
		if len(changes) == 0 {
			differs = "the limits mean the same: only comments or layout change\n"
		}
		var lines strings.Builder // a first version may have 100,000
		for _, change := range changes {
			fmt.Fprintln(&lines, change)
		}
		differs += lines.String()
		if !first {
			why = append(why, dangers(old, new, changes)...)
		}
	}
	sure := c.yes || c.dryRun || len(why) == 0
	if !sure || c.dryRun {
		if err := try(); err != nil {
			return "", err
		}
	}
	if !sure {
		fmt.Fprintf(c.people(cmd), "if you confirm it:\n%s", differs)
		differs = ""
	}
	for _, w := range dynamicconfig.NewWarnings(old, new) {
		fmt.Fprintln(cmd.ErrOrStderr(), w)
	}
	return differs, confirm(cmd, sure, why...)
}
