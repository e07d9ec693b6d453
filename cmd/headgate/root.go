// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/spelling"
)

// newRoot is the whole tree of commands.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "headgate",
		Short: "Rate limits of a whole cluster, shared by where the load is",
		Long: `headgate limits request rates across a whole cluster, by where the load really is,
without asking anybody per request. Services link it; this program shows it.`,
		Example: `  headgate demo             # watch five hosts share one limit
  headgate help demo        # what else demo can do`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(hint)
	root.AddCommand(newDemo(), newLimits(), newServe(), newSimulate(), newVersion())
	return root
}

// hint says what to do about a flag that is wrong.
func hint(cmd *cobra.Command, err error) error {
	help := fmt.Sprintf("`%s --help` lists the flags", cmd.CommandPath())
	var unknown interface{ GetSpecifiedName() string }
	if errors.As(err, &unknown) && strings.HasPrefix(err.Error(), "unknown") {
		if like := spelling.Nearest(unknown.GetSpecifiedName(), flags(cmd)); like != "" {
			return fmt.Errorf("%w; did you mean --%s? %s", err, like, help)
		}
	}
	return fmt.Errorf("%w; %s", err, help)
}

// flags are the names of cmd's.
func flags(cmd *cobra.Command) []string {
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+)`).FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
		names = append(names, m[1])
	}
	return names
}
