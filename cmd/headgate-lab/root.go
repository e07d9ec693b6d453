// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/command"
)

// newRoot is the whole tree of commands.
func newRoot() *cobra.Command {
	return command.Root(&cobra.Command{
		Use:   "headgate-lab",
		Short: "Watch a cluster share its limits, and measure how well",
		Long: `headgate-lab runs clusters of headgate's limiters and deciders: real hosts that you can
watch, and simulated ones that it compares with one perfect bucket.`,
		Example: `  headgate-lab demo             # watch five hosts share one limit
  headgate-lab simulate cron    # what a cluster does with load that comes at once
  headgate-lab replay access.log --limit 26/s   # what a limit would have done to your users`,
	}, newDemo(), newSimulate(), newReplay())
}
