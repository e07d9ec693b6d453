// SPDX-License-Identifier: Apache-2.0

package read

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/printable"
)

// changeLine is a version that changed a rule or an override, for programs.
type changeLine struct {
	historyLine

	Changes []string `json:"changes"`
}

// listed is how many versions are listed at once.
const listed = 100

// changes prints the n newest versions before one, or of all if before is 0, that changed the rule with a key, or its override.
func changes(ctx context.Context, cmd *cobra.Command, db history.Store, key string, before int64, n int, o *output.Form) error {
	lines := []changeLine{}
	var later history.Version
	var after *dynamicconfig.Snapshot // of later; nil if this release cannot use it
	compare := func(with *dynamicconfig.Snapshot) {
		if after == nil || with == nil {
			return
		}
		if texts := changesOf(dynamicconfig.Diff(with, after), key); len(texts) > 0 {
			lines = append(lines, changeLine{historyLines([]history.Version{later})[0], texts})
		}
	}
	var newest *dynamicconfig.Snapshot
	for at := before; len(lines) < n; {
		versions, err := db.List(ctx, at, listed)
		if err != nil {
			return err
		}
		for _, v := range versions {
			if v, err = db.Get(ctx, v.Number); err != nil {
				return err
			}
			s, err := v.Parse()
			if err != nil {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s cannot be used, and is not compared\n", v.Name())
				s = nil
			}
			if newest == nil {
				newest = s
			}
			if compare(s); len(lines) == n {
				break
			}
			at, later, after = v.Number, v, s
		}
		if len(versions) < listed {
			break
		}
	}
	if len(lines) < n && later.Number == 1 { // no limits were before it
		none, err := dynamicconfig.Config{}.Snapshot()
		if err != nil {
			return err
		}
		compare(none)
	}
	if len(lines) == 0 && newest != nil && !slices.ContainsFunc(newest.Rules(), func(r dynamicconfig.Rule) bool { return r.Key == key }) {
		return limitsdb.Missing(newest, key)
	}
	return o.Print(cmd.OutOrStdout(), lines, func(w io.Writer) error { return changesTable(w, lines) })
}

// changesOf are those of all that are of the rule, or the override, of a key, in words.
func changesOf(all []dynamicconfig.Change, key string) (texts []string) {
	for _, c := range all {
		if c.Name == key && (c.Section == "limits" || c.Section == "overrides") {
			texts = append(texts, c.String())
		}
	}
	return texts
}

func changesTable(w io.Writer, lines []changeLine) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VERSION\tTIME\tAUTHOR\tCHANGE\tMESSAGE")
	for _, l := range lines {
		for _, text := range l.Changes {
			fmt.Fprintf(t, "%d\t%s\t%s\t%s\t%s\n", l.Version, l.Time.Format(time.RFC3339), printable.Text(l.Author), printable.Text(text), firstLine(l.Message))
		}
	}
	return t.Flush()
}
