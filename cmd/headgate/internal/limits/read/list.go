// SPDX-License-Identifier: Apache-2.0

package read

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/printable"
)

func newList() *cobra.Command {
	var r limitsdb.Source
	var o output.Form
	var match string
	cmd := &cobra.Command{
		Use:   "list {FILE | --limits-db DB}",
		Short: "List the rules of a file or a database",
		Long: `list prints a line for each rule, in the order of the file: of the globs that match a key, the
first one decides. With -o json or yaml, each rule has all its fields.`,
		Example: `  headgate limits list limits.yaml
  headgate limits list --limits-db /var/lib/headgate --match 'frontend:*'
  headgate limits list --limits-db /var/lib/headgate --version 7 -o json`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern, err := dynamicconfig.CompileGlob(match)
			if err != nil {
				return fmt.Errorf("limits list: --match %q %w", match, err)
			}
			if err := o.Check(); err != nil {
				return err
			}
			s, rest, err := r.Read(cmd, args)
			if err != nil {
				return err
			}
			if len(rest) > 0 {
				return errors.New("limits list: name one file or one database; headgate limits get shows one rule")
			}
			rules, fields := []dynamicconfig.Rule{}, []map[string]any{}
			for _, rule := range s.Rules() {
				if pattern.Match(rule.Key) {
					rules = append(rules, rule)
				}
			}
			if !o.ForPeople() {
				for i := range rules {
					fields = append(fields, maps.Collect(rules[i].Fields()))
				}
			}
			return o.Print(cmd.OutOrStdout(), fields, func(w io.Writer) error {
				if err := rulesTable(w, rules); err != nil {
					return err
				}
				hold := 0
				for _, o := range s.OverrideStates(time.Now()) {
					if !o.Ended && o.Idle == "" {
						hold++
					}
				}
				switch {
				case hold == 1:
					fmt.Fprintln(w, "1 override holds now, which this table leaves out: headgate limits overrides lists it")
				case hold > 1:
					fmt.Fprintf(w, "%d overrides hold now, which this table leaves out: headgate limits overrides lists them\n", hold)
				}
				return nil
			})
		},
	}
	r.Flags(cmd)
	o.Flags(cmd, "table")
	cmd.Flags().StringVar(&match, "match", "*", "only rules whose key matches this `glob`")
	return cmd
}

func rulesTable(w io.Writer, rules []dynamicconfig.Rule) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tLIMIT\tBURST\tALGORITHM\tENFORCE\tFALLBACK")
	for i := range rules {
		r := &rules[i]
		f := maps.Collect(r.Fields())
		fmt.Fprintf(t, "%s\t%v\t%s\t%s\t%v\t%v\n", printable.Text(r.Key), f["limit"], burstOf(r), algorithmOf(r), shownOr(f["enforce"], "100%"), f["fallback"])
	}
	return t.Flush()
}

func algorithmOf(r *dynamicconfig.Rule) string {
	if m := r.Migration; m != nil {
		return fmt.Sprintf("%s → %s (%s)", m.From, m.To, m.Mode)
	}
	return r.Algorithm
}

func burstOf(r *dynamicconfig.Rule) string {
	if r.Burst == 0 {
		return "-"
	}
	return printable.Number(r.Burst, 15)
}

func shownOr(value any, otherwise string) string {
	if value == nil {
		return otherwise
	}
	return fmt.Sprint(value)
}
