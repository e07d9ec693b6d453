// SPDX-License-Identifier: Apache-2.0

package main

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
)

func newLimitsList() *cobra.Command {
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
		fmt.Fprintf(t, "%s\t%v\t%s\t%s\t%v\t%v\n", r.Key, f["limit"], shownOr(f["burst"], "-"), algorithmOf(r), shownOr(f["enforce"], "100%"), f["fallback"])
	}
	return t.Flush()
}

func algorithmOf(r *dynamicconfig.Rule) string {
	if m := r.Migration; m != nil {
		return fmt.Sprintf("%s → %s (%s)", m.From, m.To, m.Mode)
	}
	return r.Algorithm
}

func shownOr(value any, otherwise string) string {
	if value == nil {
		return otherwise
	}
	return fmt.Sprint(value)
}

func newLimitsGet() *cobra.Command {
	var r limitsdb.Source
	var o output.Form
	cmd := &cobra.Command{
		Use:   "get {FILE | --limits-db DB} KEY...",
		Short: "Print the rule that is written for a key",
		Long: `get prints the rule whose key is exactly KEY, a glob as it is written, with all fields
filled in. Fields that only leases use are left out of rules that lease nothing; -o json has them.
headgate limits show prints the rule that a request with a key has.`,
		Example: `  headgate limits get limits.yaml frontend:orders
  headgate limits get --limits-db /var/lib/headgate 'frontend:*' -o json`,
		ValidArgsFunction: r.CompleteKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			s, keys, err := r.Read(cmd, args)
			if err != nil {
				return err
			}
			if len(keys) == 0 {
				return errors.New("limits get: name a key; headgate limits list shows all")
			}
			found := make([]*dynamicconfig.Rule, len(keys))
			fields := make([]map[string]any, len(keys))
			rules := s.Rules()
			for i, key := range keys {
				for j := range rules {
					if rules[j].Key == key {
						found[i] = &rules[j]
						fields[i] = maps.Collect(rules[j].Fields())
					}
				}
				if found[i] == nil {
					return fmt.Errorf("limits get: %w", limitsdb.Missing(s, key))
				}
			}
			return o.Print(cmd.OutOrStdout(), fields, func(w io.Writer) error {
				for i, rule := range found {
					fmt.Fprintf(w, "rule %q:\n%s", keys[i], ruleText(s, rule))
				}
				return nil
			})
		},
	}
	r.Flags(cmd)
	o.Flags(cmd, "text")
	return cmd
}
