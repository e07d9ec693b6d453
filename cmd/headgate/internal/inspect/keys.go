// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/internal/printable"
	"github.com/headgate/headgate/limiter/explain"
)

func newKeys() *cobra.Command {
	var a adminclient.Decider
	var like string
	var most int
	var o output.Form
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "List the keys in use at a decider",
		Long: `keys lists the keys that are in use at one decider, with what it has of each limit, what it
has allowed and rejected since the key began to be used there, and whether the key goes by its
fallback. headgate explain shows one key at all members.`,
		Example: `  headgate keys --admin 10.0.0.7:7936
  headgate keys --admin 10.0.0.7:7936 --like login: -n 1000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if most < 1 {
				return fmt.Errorf("keys: --number %d: list 1 key or more", most)
			}
			return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
				keys, more, err := listKeys(ctx, c, like, most)
				if err != nil {
					return err
				}
				if err := o.Print(cmd.OutOrStdout(), keys, func(w io.Writer) error { return printKeys(w, keys) }); err != nil {
					return err
				}
				switch {
				case len(keys) == 0 && strings.ContainsAny(like, "*?["):
					fmt.Fprintf(cmd.ErrOrStderr(), "no key in use at this decider contains %q: --like takes a part of a key, and no pattern\n", like)
				case len(keys) == 0 && like != "":
					fmt.Fprintf(cmd.ErrOrStderr(), "no key in use at this decider contains %q\n", like)
				case len(keys) == 0:
					fmt.Fprintln(cmd.ErrOrStderr(), "no key is in use at this decider: headgate top shows those of all members")
				case more:
					fmt.Fprintf(cmd.ErrOrStderr(), "there are more keys than these %d: -n %d lists more\n", len(keys), 10*most)
				}
				return nil
			})
		},
	}
	a.Flags(cmd.Flags())
	cmd.Flags().StringVar(&like, "like", "", "only keys that contain this `text`")
	cmd.Flags().IntVarP(&most, "number", "n", 100, "how many keys")
	o.Flags(cmd, "table")
	return cmd
}

func printKeys(out io.Writer, keys []explain.Key) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tRULE\tALGORITHM\tPART\tTOKENS\tALLOWED\tREJECTED\tFALLBACK")
	for _, k := range keys {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%t\n", printable.Text(k.Key), printable.Text(k.Rule), k.Algorithm, amount(k.Limit), amount(k.Tokens), k.Allowed, k.Rejected, k.Fallback)
	}
	return w.Flush()
}

// listKeys asks for at most most keys, page by page, and whether there are more.
func listKeys(ctx context.Context, c *adminclient.Client, like string, most int) (all []explain.Key, more bool, err error) {
	all = []explain.Key{}
	for after := ""; len(all) < most; {
		var page struct {
			Keys []explain.Key `json:"keys"`
			Next string        `json:"next"`
		}
		query := url.Values{"like": {like}, "after": {after}, "n": {strconv.Itoa(min(most-len(all), 1000))}}
		if err := c.Ask(ctx, http.MethodGet, "/v1/keys?"+query.Encode(), "", &page); err != nil {
			return nil, false, err
		}
		all = append(all, page.Keys...)
		if after = page.Next; after == "" {
			return all, false, nil
		}
	}
	return all, true, nil
}
