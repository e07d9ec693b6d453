// SPDX-License-Identifier: Apache-2.0

package read

import (
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/dynamicconfig"
)

func newGet() *cobra.Command {
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
