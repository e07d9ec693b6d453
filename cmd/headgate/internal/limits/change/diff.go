// SPDX-License-Identifier: Apache-2.0

package change

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/command"
	"github.com/headgate/headgate/internal/daemon"
)

// exitDiffers is the exit code of diff --exit-code if there are differences.
const exitDiffers = 2

func newDiff() *cobra.Command {
	var l limitsdb.DB
	var o output.Form
	var code bool
	cmd := &cobra.Command{
		Use:   "diff [A [B]]",
		Short: "Say which rules and fields differ between files and versions",
		Long: `diff prints what differs in B from A: which keys, from what to what. Each is a file, the
number of a version in the database, or newest. Without B, a file is compared with the
newest version, as the change that it would make, and a version is compared with the newest one.
Without both, diff prints what the newest change was. The order of fields, comments and
layout make no difference.`,
		Example: `  headgate limits diff limits.yaml new.yaml
  headgate limits diff --limits-db /var/lib/headgate limits.yaml
  headgate limits diff --limits-db /var/lib/headgate 7 newest -o json`,
		Args: cobra.MaximumNArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			numbers, _ := l.CompleteVersions(cmd, args, typed)
			return numbers, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			old, new, err := sides(cmd, &l, args)
			if err != nil {
				return err
			}
			changes := dynamicconfig.Diff(old, new)
			err = o.Print(cmd.OutOrStdout(), changesOf(changes), func(w io.Writer) error {
				for _, c := range changes {
					fmt.Fprintln(w, c)
				}
				if len(changes) == 0 {
					fmt.Fprintf(w, "%s and %s mean the same\n", old.Name(), new.Name())
				}
				return nil
			})
			if err == nil && code && len(changes) > 0 {
				return command.WithCode(fmt.Errorf("limits diff: %s and %s differ", old.Name(), new.Name()), exitDiffers)
			}
			return err
		},
	}
	l.Flags(cmd.Flags())
	o.Flags(cmd, "text")
	cmd.Flags().BoolVar(&code, "exit-code", false, fmt.Sprintf("exit with %d if there are differences", exitDiffers))
	return cmd
}

// change is a dynamicconfig.Change for programs.
type change struct {
	Kind    string        `json:"kind"`
	Section string        `json:"section"`
	Name    string        `json:"name,omitempty"`
	Fields  []fieldChange `json:"fields,omitempty"`
}

type fieldChange struct {
	Name string `json:"name"`
	From any    `json:"from"`
	To   any    `json:"to"`
}

func changesOf(all []dynamicconfig.Change) []change {
	shown := make([]change, len(all))
	for i, c := range all {
		shown[i] = changeOf(c)
	}
	return shown
}

func changeOf(c dynamicconfig.Change) change {
	shown := change{Kind: c.Kind.String(), Section: c.Section, Name: c.Name}
	for _, f := range c.Fields {
		shown.Fields = append(shown.Fields, fieldChange(f))
	}
	return shown
}

// sides returns what diff compares.
func sides(cmd *cobra.Command, l *limitsdb.DB, args []string) (old, new *dynamicconfig.Snapshot, err error) {
	names := args
	switch {
	case len(args) == 0:
		names = []string{"before", "newest"}
	case len(args) == 1 && isVersion(args[0]):
		names = []string{args[0], "newest"}
	case len(args) == 1:
		names = []string{"newest", args[0]}
	}
	var found [2]*dynamicconfig.Snapshot
	inDB := func(name string) bool { return isVersion(name) || name == "before" && len(args) == 0 }
	load := func(ctx context.Context, db daemon.LimitsDB) error {
		for i, name := range names {
			if inDB(name) {
				found[i], err = versionNamed(ctx, db, name)
			} else {
				found[i], err = limitsfile.Load(cmd.InOrStdin(), name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	switch {
	case len(args) == 1 && !isVersion(args[0]) && !l.Named():
		return nil, nil, fmt.Errorf("limits diff: name a second file, or what to compare with %s: --limits-db DB or --admin HOST:PORT", args[0])
	case inDB(names[0]) || inDB(names[1]):
		err = l.Use(cmd, load)
	default:
		if err = load(cmd.Context(), nil); err != nil {
			fmt.Fprintln(cmd.ErrOrStderr(), err)
			err = errors.New("limits diff: a file cannot be used")
		}
	}
	return found[0], found[1], err
}

// isVersion reports whether a word names a version of a database.
func isVersion(name string) bool {
	_, err := strconv.ParseUint(name, 10, 63)
	return err == nil || name == "newest"
}

// versionNamed parses a version, which is named by its number, or as newest or before: before is
// the one before the newest.
func versionNamed(ctx context.Context, db daemon.LimitsDB, name string) (*dynamicconfig.Snapshot, error) {
	number, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		on, err := db.Newest(ctx)
		if err != nil {
			return nil, err
		}
		if number = on.Number; name == "before" {
			number--
		}
	}
	if number == 0 {
		return nil, errors.New("there is no version 0: version 1 is the first, so name two versions or a file")
	}
	v, err := db.Get(ctx, number)
	if err != nil {
		return nil, err
	}
	return v.Parse()
}
