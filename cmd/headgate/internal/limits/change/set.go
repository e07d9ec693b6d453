// SPDX-License-Identifier: Apache-2.0

package change

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/edit"
)

// fieldUsage is what the flags of set say of the fields of a rule.
var fieldUsage = map[string]string{
	"algorithm":     "how the limit is shared: auto, exact, …",
	"ask_timeout":   "how long an event waits for the key's owner",
	"burst":         "tokens that may be used at once",
	"description":   "text for people",
	"enforce":       "the percentage of over-limit events to reject",
	"fallback":      "what a host applies without a grant: even, open, closed or safe",
	"idle_after":    "how long a key goes unused before a host forgets it",
	"lease":         "how long a grant may be used without a newer one",
	"learning":      "how long a new owner learns what hosts have",
	"max_cost":      "the most tokens that one event may cost",
	"max_debt":      "how long the debt of an event may take to pay",
	"max_keys":      "keys that may match a glob at once on one host",
	"max_wait":      "the longest that an event waits",
	"migrate":       "two algorithms side by side: {from: A, to: B, mode: MODE}",
	"one_band":      "all priorities share alike",
	"overcommit":    "how much more is leased than the limit",
	"parameters":    "of the algorithm: {NAME: VALUE}",
	"parent":        "the limit comes from the cluster above",
	"priorities":    "the algorithm of each priority: {PRIORITY: ALGORITHM}",
	"priority":      "the priority of hosts that state none",
	"private":       "keys hold personal data",
	"recalculate":   "how often leases are computed again",
	"refresh":       "how often a lease is refreshed",
	"safe_capacity": "the limit of each host, for fallback safe",
	"shared":        "all keys that match have one bucket",
}

func newSet() *cobra.Command {
	var c changing
	var clear []string
	values := make(map[string]*string)
	cmd := &cobra.Command{
		Use:   "set {FILE | --limits-db DB} KEY [LIMIT]",
		Short: "Change or add one rule",
		Long: `set changes fields of the rule whose key is exactly KEY, and leaves its other fields, all other
rules, comments and the order as they are. Without such a rule, it adds one: a glob stands
before the first glob that covers it, and other rules stand last. A field that begins with - is
written as in --priority=-1. docs/config.md describes the fields.

It prints what changes. With a database, the text of the newest version is changed and stored as
a new version. If a limit becomes less than half, set asks first; --yes is for scripts.`,
		Example: `  headgate limits set --limits-db /var/lib/headgate frontend:orders 200/s -m "for the sale"
  headgate limits set --limits-db /var/lib/headgate 'login:*' --burst 20 --clear max_wait -m "slow phones"
  headgate limits set limits.yaml batch:mail 50/s --algorithm exact
  headgate limits set limits.yaml 'orders:*' --clear algorithm --migrate '{from: even, to: auto, mode: old}'`,
		ValidArgsFunction: c.completeKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.in(cmd, args, func(old string, args []string) (string, error) {
				if len(args) < 1 || len(args) > 2 {
					return "", errors.New("name one key and its limit, as in frontend:orders 200/s")
				}
				fields := fieldsOf(cmd, values, clear)
				if len(args) == 2 {
					fields = append([]edit.Field{{Name: "limit", Value: args[1]}}, fields...)
				}
				if len(fields) == 0 {
					return "", errors.New("say what to change: a limit, as in 200/s, or a field, as in --burst 20")
				}
				changed, err := edit.Set(old, args[0], fields...)
				if other := beside(fields); err != nil && other != "" {
					if _, without := edit.Set(old, args[0], append(fields, edit.Field{Name: other})...); without == nil {
						err = fmt.Errorf("%w\nadd --clear %s: set leaves the other fields of the rule as they are", err, other)
					}
				}
				return changed, err
			})
		},
	}
	c.flags(cmd)
	var names []string
	for _, name := range dynamicconfig.RuleFields() {
		if name == "key" || name == "limit" {
			continue
		}
		names = append(names, name)
		flag := strings.ReplaceAll(name, "_", "-")
		values[name] = cmd.Flags().String(flag, "", fieldUsage[name])
		if slices.Contains([]string{"one_band", "parent", "private", "shared"}, name) {
			cmd.Flags().Lookup(flag).NoOptDefVal = "true"
		}
	}
	cmd.Flags().StringSliceVar(&clear, "clear", nil, "remove these `fields`, so that their defaults hold")
	_ = cmd.RegisterFlagCompletionFunc("clear", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// beside returns the field that a rule cannot have beside one of fields: algorithm beside migrate, and migrate beside
// algorithm. It returns "" if fields has neither or both.
func beside(fields []edit.Field) string {
	has := func(name string) bool {
		return slices.ContainsFunc(fields, func(f edit.Field) bool { return f.Name == name })
	}
	switch algorithm, migrate := has("algorithm"), has("migrate"); {
	case migrate && !algorithm:
		return "algorithm"
	case algorithm && !migrate:
		return "migrate"
	}
	return ""
}

// fieldsOf are the fields that flags give.
func fieldsOf(cmd *cobra.Command, values map[string]*string, clear []string) (fields []edit.Field) {
	for _, name := range dynamicconfig.RuleFields() {
		if value := values[name]; value != nil && cmd.Flags().Changed(strings.ReplaceAll(name, "_", "-")) {
			fields = append(fields, edit.Field{Name: name, Value: *value})
		}
	}
	for _, name := range clear {
		fields = append(fields, edit.Field{Name: strings.ReplaceAll(name, "-", "_")})
	}
	return fields
}

// completeKeys offers the keys of rules to a shell.
func (c *changing) completeKeys(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	r := limitsdb.Source{DB: c.DB}
	return r.CompleteKeys(cmd, args, typed)
}
