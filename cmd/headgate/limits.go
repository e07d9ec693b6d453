// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/command"
)

func newLimits() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "limits",
		Short: "Check, show and change limits, and keep their history",
		Long: `limits reads files of limits as services do, and changes the limits in a file or in a database,
which daemons follow. No daemon needs to run for that. With --admin, which dry-run, reset and
suggest need, a daemon is asked instead. docs/config.md describes files and databases. A FILE of -
is what comes in on stdin. Commands that read a FILE also read a folder, whose *.yaml files are
one configuration.

The commands exit with 0 after success, also if there was nothing to change; with 1 after an error;
with 2 if diff --exit-code finds differences; with 3 if another change came first, so that yours
must be made again; and with 4 if nobody confirmed what is dangerous.`,
		Example: `  headgate limits check limits.yaml
  headgate limits show limits.yaml frontend:orders
  headgate limits import --from doorman resources.yaml -o limits.yaml
  headgate limits apply --limits-db /var/lib/headgate limits.yaml -m "first limits"
  headgate limits set --limits-db /var/lib/headgate frontend:orders 200/s -m "for the sale"
  headgate limits rollback --limits-db /var/lib/headgate`,
		Args: command.NoSuch,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLimitsCheck(), newLimitsList(), newLimitsGet(), newLimitsShow(), newLimitsDiff(), newLimitsImport(),
		newLimitsSet(), newLimitsRm(), newLimitsEdit(), newLimitsDryRun(), newLimitsSuggest(), newLimitsApply(), newLimitsRollback(),
		newLimitsOverride(), newLimitsBypass(), newLimitsOverrides(), newLimitsReset(),
		newLimitsHistory(), newLimitsExport(), newLimitsPrune())
	return cmd
}
