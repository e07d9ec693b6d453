// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/internal/operators"
	"github.com/headgate/headgate/internal/printable"
)

func newCluster() *cobra.Command {
	var a adminclient.Decider
	var o output.Form
	cmd := &cobra.Command{
		Use:     "cluster",
		Aliases: []string{"hosts"},
		Short:   "Show the members of a cluster as one decider sees them",
		Long: `cluster asks a running decider, at its --admin address, which members it knows: their
state, since when and why, and what part of all keys each owns. up: the member answers. down: it
does not answer, and others own its keys. left: it said that it ends. held: it came and
went too often, and waits. observer: it owns no keys on purpose, or because
it starts.`,
		Example: `  headgate cluster --admin 10.0.0.7:7936
  headgate cluster --admin 10.0.0.7:7936 -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return err
			}
			return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
				var cluster operators.Cluster
				if err := c.Ask(ctx, http.MethodGet, "/cluster", "", &cluster); err != nil {
					return err
				}
				return o.Print(cmd.OutOrStdout(), cluster, func(w io.Writer) error { return printCluster(w, cluster, time.Now()) })
			})
		},
	}
	a.Flags(cmd.Flags())
	o.Flags(cmd, "table")
	return cmd
}

func printCluster(out io.Writer, c operators.Cluster, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEMBER\tSTATE\tFOR\tKEYS\tLABELS\tWHY")
	for _, m := range c.Members {
		since := "-"
		if !m.Since.IsZero() {
			since = now.Sub(m.Since).Round(time.Second).String()
		}
		name := printable.Text(m.Address)
		if m.Address == c.Host {
			name += " (asked)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.1f%%\t%s\t%s\n", name, m.State, since, 100*m.Share, printable.Text(m.Labels), printable.Text(m.Why))
	}
	return w.Flush()
}
