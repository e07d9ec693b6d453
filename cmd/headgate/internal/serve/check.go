// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsdb"
	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/internal/daemon"
)

// checkLimits says what is wrong with the limits that c names, and warns log of what the
// daemon would warn of.
func checkLimits(cmd *cobra.Command, c daemon.Config, log *slog.Logger) error {
	var also []string
	if len(c.Redis.Addresses) > 0 {
		also = append(also, "redis")
	}
	switch {
	case c.LimitsDB != "":
		limits, err := limitsdb.CheckNewest(cmd, c.LimitsDB, also)
		if limits != nil {
			daemon.WarnOfLimits(c, limits, log)
		}
		return err
	case c.Limits != "":
		text := output.Text()
		if err := limitsfile.Check(cmd, &text, []string{c.Limits}, also, false); err != nil {
			return err
		}
		if limits, _ := limitsfile.CheckFile(cmd.InOrStdin(), c.Limits, also); limits != nil {
			daemon.WarnOfLimits(c, limits, log)
		}
	}
	return nil
}
