// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/internal/printable"
	"github.com/headgate/headgate/limiter/explain"
)

func newExplain() *cobra.Command {
	var a adminclient.Decider
	var o output.Form
	var host, at string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "explain KEY",
		Short: "Say why a key is limited as it is, at each host",
		Long: `explain asks a running decider why a key is limited as it is. It prints the rule, the owner,
since when the owner knows the members that it shares keys with, what the owner has in its pool,
and for each host what it wants, what it has of the limit, whether it would refuse an event now,
and why. Of a host in fallback, it prints since when. Members that do not answer are named.
Programs that use the key and listen nowhere are asked with the next answer to their reports,
and answer with the report after that, for which explain waits. Of a key that is traced, it
prints the newest decisions, and the callers who may not use the key, each with the reason: see
headgate trace.

With --at, it is about a time of the last hour: which rule limited the key then, what each member
allowed and rejected of it in the seconds around, what happened at the decider in the minute
before, and the decisions of that time, of a key that is traced.`,
		Example: `  headgate explain --admin 10.0.0.7:7936 login:alice
  headgate explain --admin 10.0.0.7:7936 login:alice --at 03:12
  headgate explain --admin 10.0.0.7:7936 login:alice --host 10.0.0.8:7933
  headgate explain --admin 10.0.0.7:7936 login:alice -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if at != "" {
				return explainPast(cmd, &a, &o, args[0], host, at)
			}
			return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
				e, err := askExplanation(ctx, c, args[0], wait)
				if err != nil {
					return err
				}
				if host != "" {
					e.Hosts = slices.DeleteFunc(e.Hosts, func(h explain.Host) bool { return h.Host != host })
					if len(e.Hosts) == 0 {
						return fmt.Errorf("%s is no member, and no program that uses the key: headgate cluster lists the members", host)
					}
				}
				return o.Print(cmd.OutOrStdout(), e, func(w io.Writer) error { return printExplanation(w, &e) })
			})
		},
	}
	a.Flags(cmd.Flags())
	cmd.Flags().StringVar(&host, "host", "", "only what this host knows (default all)")
	cmd.Flags().StringVar(&at, "at", "", "a `time` of the last hour: 15:04, 15:04:05, 2006-01-02T15:04:05Z, or how long ago, as in 5m")
	cmd.Flags().DurationVar(&wait, "wait", 8*time.Second, "how long to wait for programs that answer with a report of theirs")
	o.Flags(cmd, "text")
	return cmd
}

// askExplanation asks why key is limited as it is. It asks again until all programs that use the
// key have answered, but no longer than wait.
func askExplanation(ctx context.Context, c *adminclient.Client, key string, wait time.Duration) (e explain.Explanation, err error) {
	ending, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		e = explain.Explanation{}
		if err := c.Ask(ctx, http.MethodGet, "/v1/explain?"+url.Values{"key": {key}}.Encode(), "", &e); err != nil {
			return e, err
		}
		if !e.Waits() {
			return e, nil
		}
		select {
		case <-time.After(time.Second):
		case <-ending.Done():
			return e, nil
		}
	}
}

func printExplanation(out io.Writer, e *explain.Explanation) error {
	fmt.Fprintf(out, "%s: %s\n", printable.Text(e.Key), printable.Text(e.Because))
	if e.Owner != "" {
		fmt.Fprintf(out, "owner: %s", printable.Text(e.Owner))
		if !e.OwnerEpoch.IsZero() {
			fmt.Fprintf(out, ", which knows these members since %s UTC", e.OwnerEpoch.UTC().Format(time.DateTime))
		}
		fmt.Fprintln(out)
	}
	printRule(out, e.Rule)
	for _, owned := range e.Owned {
		printOwned(out, &owned)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nHOST\tWANTS\tWEIGHT\tPART\tTOKENS\tLEASE\tALLOWED\tREJECTED\tNOW")
	for _, h := range e.Hosts {
		printHost(w, &h)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, h := range e.Hosts {
		if !h.Traced {
			continue
		}
		fmt.Fprintf(out, "\nthe newest decisions at %s:\n", printable.Text(h.Host))
		printDecisions(out, h.Decisions)
		if len(h.Decisions) == 0 {
			fmt.Fprintln(out, "  none since the trace began")
		}
	}
	return nil
}

// printRule prints the fields of a rule in a line. Without a rule it prints nothing.
func printRule(out io.Writer, fields map[string]any) {
	if len(fields) == 0 {
		return
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != "key" {
			all = append(all, name+": "+printable.Text(asWritten(fields[name])))
		}
	}
	fmt.Fprintf(out, "rule %s: %s\n", printable.Text(fmt.Sprint(fields["key"])), strings.Join(all, ", "))
}

// asWritten is the value of a field of a rule, as a file has it.
func asWritten(value any) string {
	parts, ok := value.(map[string]any)
	if !ok {
		return fmt.Sprint(value)
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		all = append(all, name+": "+fmt.Sprint(parts[name]))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

func printDecisions(out io.Writer, all []explain.Decision) {
	for _, d := range all {
		fmt.Fprintf(out, "  %s  cost %d  %s\n", d.Time.Local().Format(time.TimeOnly+".000"), d.Cost, printable.Text(d.Because))
	}
}

// printOwned prints what the owner knows of the key under one algorithm.
func printOwned(out io.Writer, o *explain.Owned) {
	fmt.Fprintf(out, "at the owner, under %s:", printable.Text(o.Algorithm))
	if o.Pool != nil {
		fmt.Fprintf(out, " %s tokens in the pool, and %s lent to hosts;", amount(o.Pool), amount(o.Lent))
	}
	fmt.Fprintf(out, " %s allowed beyond the limit and not made up for, ", amount(&o.Over))
	if o.OverBound != nil {
		fmt.Fprintf(out, "of at most %s while all hosts reach the owner\n", amount(o.OverBound))
	} else {
		fmt.Fprintln(out, "and no bound")
	}
}

// printHost prints the row of one host.
func printHost(w io.Writer, h *explain.Host) {
	name, wants, weight := printable.Text(h.Host), "-", "-"
	if h.Program {
		name += " (program)"
	}
	if h.AtOwner != nil {
		wants, weight = amount(&h.AtOwner.Wants), amount(&h.AtOwner.Weight)
	}
	silent := ""
	switch {
	case h.Error != "":
		silent = "does not answer: " + printable.Text(h.Error)
	case h.Program && h.Answered == nil:
		silent = "it listens nowhere, and has not answered yet: ask again, or it is of an earlier release"
	}
	if silent != "" {
		fmt.Fprintf(w, "%s\t%s\t%s\t-\t-\t-\t-\t-\t%s\n", name, wants, weight, silent)
		return
	}
	k, lease := h.Key, "-"
	if k.Lease > 0 {
		lease = time.Duration(k.Lease * float64(time.Second)).Round(100 * time.Millisecond).String()
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", name, wants, amount(&k.Weight), amount(k.Limit), amount(k.Tokens), lease, k.Allowed, k.Rejected, printable.Text(k.Because))
}

// amount is v for people. It is - if v is nil.
func amount(v *float64) string {
	if v == nil {
		return "-"
	}
	if *v > 0 && *v < 0.001 {
		return "<0.001"
	}
	return printable.Number(*v, 4)
}
