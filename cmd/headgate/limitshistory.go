// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/daemon"
)

func newLimitsHistory() *cobra.Command {
	var l limitsdb.DB
	var n int
	var before int64
	var o output.Form
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List who changed the limits of a database, when and why",
		Long: `history lists versions, the newest first. LIMITS is the fingerprint that daemons log and that
headgate limits check prints: two versions with the same one mean the same.`,
		Example: `  headgate limits history --limits-db /var/lib/headgate
  headgate limits history --limits-db /var/lib/headgate -n 5 --before 120`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			return l.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
				if n < 1 || before < 0 {
					return fmt.Errorf("-n %d --before %d: list 1 version or more, before a version", n, before)
				}
				versions, err := db.List(ctx, before, n)
				if err != nil {
					return err
				}
				return o.Print(cmd.OutOrStdout(), historyLines(versions), func(w io.Writer) error {
					return historyTable(w, versions)
				})
			})
		},
	}
	l.Flags(cmd.Flags())
	cmd.Flags().IntVarP(&n, "lines", "n", 20, "how many versions")
	cmd.Flags().Int64Var(&before, "before", 0, "only versions before this `number` (default all)")
	o.Flags(cmd, "table")
	return cmd
}

func historyTable(w io.Writer, versions []history.Version) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VERSION\tTIME\tAUTHOR\tLIMITS\tMESSAGE")
	for _, v := range versions {
		first, more, _ := strings.Cut(v.Message, "\n")
		if more != "" {
			first += " …"
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", v.Number, v.Time.Format(time.RFC3339), v.Author, v.Fingerprint, first)
	}
	return t.Flush()
}

// historyLine is a version for programs.
type historyLine struct {
	Version int64     `json:"version"`
	Time    time.Time `json:"time"`
	Author  string    `json:"author"`
	Limits  string    `json:"limits"`
	Message string    `json:"message"`
}

func historyLines(versions []history.Version) []historyLine {
	lines := make([]historyLine, len(versions))
	for i, v := range versions {
		lines[i] = historyLine{v.Number, v.Time, v.Author, v.Fingerprint, v.Message}
	}
	return lines
}

func newLimitsExport() *cobra.Command {
	var l limitsdb.DB
	var number int64
	var to string
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print a version of a database as its author wrote it",
		Long: `export prints the whole text of a version, with its comments, and says on stderr which one it
is. Change the file, and give it to headgate limits apply, with the version as --base.`,
		Example: `  headgate limits export --limits-db /var/lib/headgate -o limits.yaml
  headgate limits export --limits-db /var/lib/headgate --version 7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return l.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
				v, err := limitsdb.At(ctx, db, number)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.ErrOrStderr(), "%s, by %s at %s\n", v.Name(), v.Author, v.Time.Format(time.RFC3339))
				if to != "" {
					return limitsfile.WriteNew(to, []byte(v.Text))
				}
				_, err = io.WriteString(cmd.OutOrStdout(), v.Text)
				return err
			})
		},
	}
	l.Flags(cmd.Flags())
	cmd.Flags().Int64Var(&number, "version", 0, "the `number` of the version (default the newest)")
	_ = cmd.RegisterFlagCompletionFunc("version", l.CompleteVersions)
	cmd.Flags().StringVarP(&to, "output", "o", "", "write to this `file`, which must not exist yet, and not to stdout")
	return cmd
}

func newLimitsPrune() *cobra.Command {
	var l limitsdb.DB
	var keep int
	var yes bool
	cmd := &cobra.Command{
		Use:   "prune --keep N",
		Short: "Remove the oldest versions of a database",
		Long: `prune removes all versions but the newest N for good. It asks before it removes any. Nobody can
look at these versions or roll back to them later: export those that you need.`,
		Example: `  headgate limits prune --limits-db /var/lib/headgate --keep 1000
  headgate limits prune --limits-db /var/lib/headgate --keep 1000 --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return l.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
				if err := history.CheckPrune(keep); err != nil {
					return err
				}
				newest, err := db.List(ctx, 0, keep+1)
				if err != nil {
					return err
				}
				if len(newest) > keep {
					err = confirm(cmd, yes, fmt.Sprintf("version %d and all before it are removed for good", newest[keep].Number))
				}
				if err != nil {
					return err
				}
				removed, err := db.Prune(ctx, keep)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "versions removed: %d\n", removed)
				return nil
			})
		},
	}
	l.Flags(cmd.Flags())
	cmd.Flags().IntVar(&keep, "keep", 0, "how many versions to keep, 1 or more (required)")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do what is dangerous without asking")
	return cmd
}
