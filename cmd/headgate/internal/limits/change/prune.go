// SPDX-License-Identifier: Apache-2.0

package change

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/dynamicconfig/history"
	"github.com/headgate/headgate/internal/daemon"
)

func newPrune() *cobra.Command {
	var l limitsdb.DB
	var keep int
	var yes bool
	cmd := &cobra.Command{
		Use:   "prune --keep N",
		Short: "Remove the oldest versions of a database",
		Long: `prune removes all versions but the newest N for good. It asks before it removes any. You cannot
look at these versions or roll back to them later: export those that you need.`,
		Example: `  headgate limits prune --limits-db /var/lib/headgate --keep 1000
  headgate limits prune --limits-db /var/lib/headgate --keep 1000 --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return l.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error {
				if err := history.CheckPrune(keep); err != nil {
					return err
				}
				newest, err := db.List(ctx, 0, keep+1)
				if err != nil {
					return err
				}
				if len(newest) > keep {
					err = confirm(cmd, yes, fmt.Sprintf("version %d and all before it are removed for good", newest[keep].Number))
				}
				if err != nil {
					return err
				}
				removed, err := db.Prune(ctx, keep)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "versions removed: %d\n", removed)
				return nil
			})
		},
	}
	l.Flags(cmd.Flags())
	cmd.Flags().IntVar(&keep, "keep", 0, "how many versions to keep, 1 or more (required)")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do what is dangerous without asking")
	return cmd
}
