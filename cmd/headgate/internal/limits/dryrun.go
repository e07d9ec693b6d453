// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/printable"
)

func newDryRun() *cobra.Command {
	var a adminclient.Decider
	var o output.Form
	cmd := &cobra.Command{
		Use:   "dry-run FILE",
		Short: "Say what a file of limits would have done with the last hour",
		Long: `dry-run asks a running decider what the limits in FILE would have rejected of what happened
during the last hour. It looks at the keys whose limit changes, over all members, and gives
the answer of one perfect bucket of the new limit. Nothing is changed.`,
		Example: `  headgate limits dry-run --admin 10.0.0.7:7936 limits.yaml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := limitsfile.Load(cmd.InOrStdin(), args[0])
			if err != nil {
				fmt.Fprintln(cmd.ErrOrStderr(), err)
				return fmt.Errorf("limits dry-run: %s cannot be used", args[0])
			}
			return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
				var d lasthour.DryRun
				if err := c.Ask(ctx, http.MethodPost, "/v1/limits/dry-run", file.Text(), &d); err != nil {
					return err
				}
				return o.Print(cmd.OutOrStdout(), d, func(w io.Writer) error { return printDryRun(w, &d, time.Now()) })
			})
		},
	}
	a.Flags(cmd.Flags())
	o.Flags(cmd, "text")
	return cmd
}

// mostDryKeys is how many keys dry-run prints.
const mostDryKeys = 20

func printDryRun(out io.Writer, d *lasthour.DryRun, now time.Time) error {
	for _, c := range d.Changes {
		fmt.Fprintln(out, printable.Text(c.Text))
	}
	back := now.Sub(d.Since).Round(time.Second)
	if len(d.Keys) == 0 {
		_, err := fmt.Fprintf(out, "no key whose limit it changes was used during the last %v\n", back)
		return err
	}
	hit, hosts := 0, 0
	for _, k := range d.Keys {
		if k.Would > k.Rejected {
			hit++
			hosts = max(hosts, k.Hosts)
		}
	}
	fmt.Fprintf(out, "%s of what was asked for in the last %v was rejected, and %s would have been\n", printable.Part(d.Rejected, d.Offered), back, printable.Part(d.Would, d.Offered))
	more := "no key that it changes"
	if hit > 0 {
		more = fmt.Sprintf("%d of the %s, at up to %s,", hit, printable.Count(len(d.Keys)+d.More, "key that it changes", "keys that it changes"), printable.Count(hosts, "host", "hosts"))
	}
	fmt.Fprintf(out, "%s would have been rejected more\n\n", more)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tRULE\tHOSTS\tOFFERED\tREJECTED\tWOULD BE")
	for i, k := range d.Keys {
		if i == mostDryKeys {
			fmt.Fprintf(w, "… and %d more: -o json has them\n", len(d.Keys)-i)
			break
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%.0f\t%s\t%s\n", printable.Text(k.Key), printable.Text(k.Rule), k.Hosts, k.Offered, printable.Part(k.Rejected, k.Offered), printable.Part(k.Would, k.Offered))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if d.Silent > 0 {
		fmt.Fprintf(out, "%s, so what happened there is not counted\n", d.Silence)
	}
	return nil
}
