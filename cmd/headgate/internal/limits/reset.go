// SPDX-License-Identifier: Apache-2.0

package limits

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

func newReset() *cobra.Command {
	var a adminclient.Decider
	cmd := &cobra.Command{
		Use:   "reset KEY",
		Short: "Make the bucket of a key full again, on all hosts",
		Long: `reset asks a running decider to have all members make the bucket of KEY full again, and to forgive
its debts. So a burst is let through again. The limit stays as it is, and slots that are held stay
held. What members have used and not reported yet is charged afterwards. reset may be repeated.`,
		Example: `  headgate limits reset --admin 10.0.0.7:7936 login:alice`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.Use(cmd, func(ctx context.Context, c *adminclient.Client) error {
				var done struct {
					Failed map[string]string `json:"failed"`
				}
				if err := c.Ask(ctx, http.MethodPost, "/v1/keys/reset?"+url.Values{"key": args}.Encode(), "", &done); err != nil {
					return err
				}
				for _, member := range slices.Sorted(maps.Keys(done.Failed)) {
					fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", printable.Text(member), printable.Text(done.Failed[member]))
				}
				if n := len(done.Failed); n > 0 {
					return fmt.Errorf("%d of the members could not do all of it, the others did: try again", n)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "the bucket of %q is full again\n", args[0])
				return nil
			})
		},
	}
	a.Flags(cmd.Flags())
	return cmd
}
