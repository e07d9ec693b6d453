// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/internal/admin/api/lasthour"
	"github.com/headgate/headgate/internal/printable"
)

// mostSuggestions is how many keys a decider suggests limits for at once.
const mostSuggestions = 200

func newSuggest() *cobra.Command {
	var a adminclient.Decider
	var like string
	var margin float64
	var most int
	var o output.Form
	cmd := &cobra.Command{
		Use:   "suggest",
		Short: "Suggest limits from what was offered during the last hour",
		Long: `suggest asks a running decider for the peak of each key during the last hour, over all
members, and prints limits with some room above it. A peak is of one second, or, more than five minutes ago, of ten.
Events that cost more than any may, as by a rule's burst, are in no peak, because no limit lets them through. What
is said of them is how many tokens they would have cost.`,
		Example: `  headgate limits suggest --admin 10.0.0.7:7936
  headgate limits suggest --admin 10.0.0.7:7936 --like orders: --margin 2`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
				var found lasthour.Suggestions
				query := url.Values{"like": {like}, "n": {strconv.Itoa(most)}, "margin": {strconv.FormatFloat(margin, 'g', -1, 64)}}
				if err := c.Ask(ctx, http.MethodGet, "/v1/limits/suggest?"+query.Encode(), "", &found); err != nil {
					return err
				}
				if found.Silent > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s, so what happened there is in no peak, and a limit may have to be higher\n", found.Silence)
				}
				switch {
				case found.More > 0 && most < mostSuggestions:
					fmt.Fprintf(cmd.ErrOrStderr(), "these are the keys that were used most, and there are %d more: -n %d lists more, --like chooses\n", found.More, mostSuggestions)
				case found.More > 0:
					fmt.Fprintf(cmd.ErrOrStderr(), "these are the keys that were used most, and there are %d more: --like chooses\n", found.More)
				case len(found.Suggestions) == 0:
					fmt.Fprintln(cmd.ErrOrStderr(), "no such key was used during the last hour")
				}
				return o.Print(cmd.OutOrStdout(), found.Suggestions, func(w io.Writer) error { return printSuggestions(w, found.Suggestions) })
			})
		},
	}
	a.Flags(cmd.Flags())
	cmd.Flags().StringVar(&like, "like", "", "only keys that contain this `text`")
	cmd.Flags().Float64Var(&margin, "margin", 1.5, "how many times the peak, 1 to 100")
	cmd.Flags().IntVarP(&most, "number", "n", 20, fmt.Sprintf("how many keys, at most %d", mostSuggestions))
	o.Flags(cmd, "table")
	return cmd
}

func printSuggestions(out io.Writer, all []lasthour.Suggestion) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tPEAK\tLIMIT\tSUGGESTED")
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s/s\t%s\t%s\n", printable.Text(s.Key), printable.Number(s.Peak, 4), s.Limit, s.Suggested)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range all {
		if s.Costly > 0 {
			fmt.Fprintf(out, "%s: events of %s tokens in all cost more than any may, and are not in the peak: a larger burst or max_cost lets them through\n", printable.Text(s.Key), printable.Number(s.Costly, 4))
		}
	}
	return nil
}
