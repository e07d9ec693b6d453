// SPDX-License-Identifier: Apache-2.0

package read

import (
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/dynamicconfig"
)

func newShow() *cobra.Command {
	var r limitsdb.Source
	var o output.Form
	cmd := &cobra.Command{
		Use:   "show {FILE | --limits-db DB} [KEY...]",
		Short: "Show which rule a key has, and all that is in force for it",
		Long: `show prints the rule of each KEY, all fields filled in: what the rule says, what it takes
from the defaults, and the values that headgate has for the rest. Fields that only leases use
are left out of rules that lease nothing; -o json has them. Without a KEY it prints the whole file that way,
with all fields, which is a file of limits with the same meaning. With --limits-db, there is no
FILE: it shows the newest version of a database, or the one that --version names.`,
		Example: `  headgate limits show limits.yaml
  headgate limits show limits.yaml frontend:orders batch:mail
  headgate limits show limits.yaml frontend:orders -o json
  headgate limits show --limits-db /var/lib/headgate --version 7 frontend:orders`,
		ValidArgsFunction: r.CompleteKeys,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			s, keys, err := r.Read(cmd, args)
			if err != nil {
				return err
			}
			var v any = wholeFile(s)
			if len(keys) > 0 {
				s = s.At(time.Now()) // with the overrides that hold
				answers := make([]keyAnswer, len(keys))
				for i, key := range keys {
					answers[i] = answerFor(s, key)
				}
				v = answers
			}
			return o.Print(cmd.OutOrStdout(), v, func(w io.Writer) error {
				for _, key := range keys {
					showKey(w, s, key)
				}
				if len(keys) > 0 {
					return nil
				}
				_, err := w.Write(s.YAML())
				return err
			})
		},
	}
	r.Flags(cmd)
	o.Flags(cmd, "text")
	return cmd
}

// showKey prints one key for people.
func showKey(w io.Writer, s *dynamicconfig.Snapshot, key string) {
	r, ok := s.Match(key)
	switch {
	case !ok && s.Unmatched() == dynamicconfig.UnmatchedDeny:
		fmt.Fprintf(w, "%q has no rule: nothing is allowed (unmatched: deny)\n", key)
	case !ok:
		fmt.Fprintf(w, "%q has no rule: everything is allowed (unmatched: allow)\n", key)
	case r == s.UnmatchedRule():
		fmt.Fprintf(w, "%q has the rule of unmatched keys:\n%s", key, ruleText(s, r))
	default:
		fmt.Fprintf(w, "%q has the rule:\n%s", key, ruleText(s, r))
	}
}

// ruleText is a rule for people. If nothing leases under the rule, it leaves out the fields that
// only leases use, unless they differ from their defaults.
func ruleText(s *dynamicconfig.Snapshot, r *dynamicconfig.Rule) string {
	algorithms := []string{r.Algorithm}
	if m := r.Migration; m != nil {
		algorithms = []string{m.From, m.To}
	}
	text := string(r.YAML("  "))
	if slices.ContainsFunc(algorithms, func(name string) bool { t, ok := dynamicconfig.TraitsOf(name); return !ok || t.Wants }) {
		return text
	}
	byDefault := map[string]bool{
		"refresh":     r.Refresh == min(s.Properties().UpdateInterval, r.Lease/2),
		"recalculate": r.Recalculate == min(5*time.Second, r.Lease),
		"priority":    r.Priority == 0,
	}
	lines := slices.DeleteFunc(strings.SplitAfter(text, "\n"), func(line string) bool {
		name, _, _ := strings.Cut(strings.TrimSpace(line), ":")
		return byDefault[name]
	})
	return strings.Join(lines, "")
}

// keyAnswer is what is in force for one key, for programs.
type keyAnswer struct {
	Key string `json:"key"`
	// Unmatched is allow, deny or rule for a key that no rule of the list matches.
	Unmatched string         `json:"unmatched,omitempty"`
	Rule      map[string]any `json:"rule,omitempty"`
}

func answerFor(s *dynamicconfig.Snapshot, key string) keyAnswer {
	a := keyAnswer{Key: key}
	r, ok := s.Match(key)
	if !ok || r == s.UnmatchedRule() {
		a.Unmatched = s.Unmatched().String()
	}
	if ok {
		a.Rule = maps.Collect(r.Fields())
	}
	return a
}

// wholeFile is s for programs, in the shape of a file.
func wholeFile(s *dynamicconfig.Snapshot) map[string]any {
	limits := []map[string]any{}
	for r := range s.Each() {
		limits = append(limits, maps.Collect(r.Fields()))
	}
	v := map[string]any{
		"version":    s.Version(),
		"defaults":   maps.Collect(s.Properties().Fields()),
		"limits":     limits,
		"unmatched":  s.Unmatched().String(),
		"properties": maps.Collect(valuesOf(s)),
	}
	if u := s.UnmatchedRule(); u != nil {
		v["unmatched"] = maps.Collect(u.Fields())
	}
	var overrides []map[string]any
	for _, o := range s.Overrides() {
		overrides = append(overrides, maps.Collect(o.Fields()))
	}
	if len(overrides) > 0 {
		v["overrides"] = overrides
	}
	return v
}

func valuesOf(s *dynamicconfig.Snapshot) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		values := s.Values()
		for _, name := range values.Names() {
			if v, _ := values.Lookup(name); !yield(name, v) {
				return
			}
		}
	}
}
