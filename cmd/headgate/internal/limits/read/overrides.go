// SPDX-License-Identifier: Apache-2.0

package read

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/printable"
)

func newOverrides() *cobra.Command {
	var r limitsdb.Source
	var o output.Form
	cmd := &cobra.Command{
		Use:   "overrides {FILE | --limits-db DB}",
		Short: "List overrides, and what has become of each",
		Long: `overrides lists what limits override and bypass wrote: what holds now, and until when. One that
has ended does nothing, and the next override removes it. One that changes nothing says why.`,
		Example: `  headgate limits overrides --limits-db /var/lib/headgate
  headgate limits overrides limits.yaml -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			s, rest, err := r.Read(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return errors.New("limits overrides: name one file or one database")
			}
			now := time.Now()
			lines := overrideLines(s.OverrideStates(now))
			return o.Print(cmd.OutOrStdout(), lines, func(w io.Writer) error { return overridesTable(w, lines, now) })
		},
	}
	r.Flags(cmd)
	o.Flags(cmd, "table")
	return cmd
}

// overrideLine is an override for programs.
type overrideLine struct {
	Key    string    `json:"key,omitempty"` // empty: all rules
	All    bool      `json:"all,omitempty"`
	Limit  string    `json:"limit"`
	Until  time.Time `json:"until"`
	Author string    `json:"author"`
	Reason string    `json:"reason"`
	Ended  bool      `json:"ended"`
	// Because says why an override that has not ended changes nothing.
	Because string `json:"changes_nothing_because,omitempty"`

	bypass bool
}

func overrideLines(states []dynamicconfig.OverrideState) []overrideLine {
	lines := make([]overrideLine, len(states))
	for i := range states {
		s := &states[i]
		lines[i] = overrideLine{s.Key, s.All, s.Amount(), s.Until.UTC(), s.Author, s.Reason, s.Ended, s.Idle, s.Bypass}
	}
	return lines
}

func overridesTable(w io.Writer, lines []overrideLine, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tLIMIT\tUNTIL\tAUTHOR\tNOW\tREASON")
	for _, l := range lines {
		lasts := l.Until.Sub(now).Round(time.Second).String()
		state := "holds for " + lasts
		bypass := func(b overrideLine) bool { return b.Key == l.Key && b.bypass && !b.Ended }
		if !l.bypass && slices.ContainsFunc(lines, bypass) {
			state = "holds, but for the bypass, for " + lasts
		}
		if l.Ended {
			state = "has ended"
		} else if l.Because != "" {
			state = "changes nothing: " + l.Because
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", printable.Text(cmp.Or(l.Key, "(all rules)")), l.Limit, l.Until.Format(time.RFC3339), printable.Text(l.Author), state, printable.Text(l.Reason))
	}
	return t.Flush()
}
