// SPDX-License-Identifier: Apache-2.0

package read

import (
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/limits/limitsfile"
	"github.com/headgate/headgate/cmd/headgate/internal/output"
)

func newCheck() *cobra.Command {
	var also []string
	var strict bool
	var o output.Form
	cmd := &cobra.Command{
		Use:     "check FILE...",
		Aliases: []string{"lint"},
		Short:   "Say what is wrong with files of limits, and where",
		Long: `check reads each file and says of each mistake where it is and what to do: unknown fields,
numbers out of range, bad globs, algorithms that headgate does not have, and parameters
that they do not take. Name algorithms of your own with --also, and redis too if you use it.

It exits with 1 if any file has a mistake. It also shows what is legal and surely not meant:
globs that are never used, because another stands before them and matches all of their keys,
keys with characters that look like others, or that cannot be seen, and a max_cost that no event
may have, because its debt would outlast max_debt. With --strict, these are mistakes too.`,
		Example: `  headgate limits check limits.yaml
  headgate limits check --also by-region,by-tier a.yaml b.yaml
  headgate limits check -o json limits.yaml
  generate-limits | headgate limits check -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error { return limitsfile.Check(cmd, &o, files, also, strict) },
	}
	limitsfile.AlsoFlag(cmd, &also)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with 1 also for what is legal and surely not meant")
	o.Flags(cmd, "text")
	return cmd
}
