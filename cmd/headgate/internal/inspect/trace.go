// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/adminclient"
	"github.com/headgate/headgate/internal/printable"
)

func newTrace() *cobra.Command {
	var a adminclient.Decider
	var off bool
	cmd := &cobra.Command{
		Use:   "trace KEY",
		Short: "Have all members remember the newest decisions about a key",
		Long: `trace has each member remember its newest 256 decisions about a key, with the reason of each,
until --off. headgate explain prints them. A member traces at most 64 keys. Decisions about a
key that is traced take a few times as long.`,
		Example: `  headgate trace --admin 10.0.0.7:7936 login:alice
  headgate trace --admin 10.0.0.7:7936 login:alice --off`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
				method := http.MethodPut
				if off {
					method = http.MethodDelete
				}
				var done struct {
					Failed map[string]string `json:"failed"`
				}
				if err := c.Ask(ctx, method, "/v1/trace?"+url.Values{"key": args}.Encode(), "", &done); err != nil {
					return err
				}
				for _, member := range slices.Sorted(maps.Keys(done.Failed)) {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", printable.Text(member), printable.Text(done.Failed[member]))
				}
				if n := len(done.Failed); n > 0 {
					return fmt.Errorf("%s; the others did", printable.Count(n, "member did not do it", "members did not do it"))
				}
				key := printable.Text(args[0])
				if off {
					fmt.Fprintf(cmd.OutOrStdout(), "no longer traced: %s\n", key)
					return nil
				}
				fmt.Fprintf(cmd.OutOrStdout(), "traced from now on: %s\nheadgate explain prints the decisions, and headgate trace --off ends it\n", key)
				return nil
			})
		},
	}
	a.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&off, "off", false, "forget the decisions, and remember no more")
	return cmd
}
