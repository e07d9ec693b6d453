// SPDX-License-Identifier: Apache-2.0

// Package limits has the commands below `headgate limits`. Those that read limits and those that
// change them are in the packages read and change. Here are those that only a running decider can
// answer: dry-run, suggest and reset.
//
// Out of scope: what files and databases of limits are; see limitsfile and limitsdb.
package limits

import (
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/change"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/read"
	"github.com/headgate/headgate/internal/command"
)

// New returns the command limits with all commands below it.
func New() *cobra.Command {
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
must be made again; and with 4 if a dangerous change was not confirmed.`,
		Example: `  headgate limits check limits.yaml
  headgate limits show limits.yaml frontend:orders
  headgate limits import --from doorman resources.yaml -o limits.yaml
  headgate limits apply --limits-db /var/lib/headgate limits.yaml -m "first limits"
  headgate limits set --limits-db /var/lib/headgate frontend:orders 200/s -m "for the sale"
  headgate limits rollback --limits-db /var/lib/headgate`,
		Args: command.NoSuch,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDryRun(), newSuggest(), newReset())
	cmd.AddCommand(read.Commands()...)
	cmd.AddCommand(change.Commands()...)
	return cmd
}
