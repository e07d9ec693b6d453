// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/daemon"
	"github.com/headgate/headgate/internal/printable"
)

func newHistory() *cobra.Command {
	var l limitsdb.DB
	var n int
	var before int64
	var o output.Form
	cmd := &cobra.Command{
		Use:   "history [KEY]",
		Short: "List who changed the limits of a database, when and why",
		Long: `history lists versions, the newest first. LIMITS is the fingerprint that daemons log and that
headgate limits check prints: two versions with the same one mean the same. With a KEY, it lists the
versions that changed the rule whose key is exactly KEY, or an override of KEY, and what they changed.`,
		Example: `  headgate limits history --limits-db /var/lib/headgate
  headgate limits history --limits-db /var/lib/headgate -n 5 --before 120
  headgate limits history --limits-db /var/lib/headgate 'frontend:*'`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			keys := limitsdb.Source{DB: l}
			return keys.CompleteKeys(cmd, args, typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			if err := l.NoFile(cmd, args, "look for who changed it where you keep it"); err != nil {
				return err
			}
			return l.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
				if n < 1 || before < 0 {
					return fmt.Errorf("-n %d --before %d: list 1 version or more, before a version", n, before)
				}
				if len(args) == 1 {
					return changes(ctx, cmd, db, args[0], before, n, &o)
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
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", v.Number, v.Time.Format(time.RFC3339), printable.Text(v.Author), v.Fingerprint, firstLine(v.Message))
	}
	return t.Flush()
}

// firstLine is the first line of a message, and a sign if there are more.
func firstLine(message string) string {
	first, more, _ := strings.Cut(message, "\n")
	if first = printable.Text(first); more != "" {
		first += " …"
	}
	return first
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
