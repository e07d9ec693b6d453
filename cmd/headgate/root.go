// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/inspect"
	"github.com/headgate/headgate/cmd/headgate/internal/limits"
	"github.com/headgate/headgate/cmd/headgate/internal/serve"
	"github.com/headgate/headgate/internal/command"
)

// newRoot is the whole tree of commands.
func newRoot() *cobra.Command {
	root := command.Root(&cobra.Command{
		Use:   "headgate",
		Short: "Rate limits of a whole cluster, shared by where the load is",
		Long: `headgate limits request rates across a whole cluster, by where the load really is,
mostly without a network call per request. Services in Go link it. This program checks
files of limits, and serves limits to programs in other languages. headgate-lab has the
demo, the simulator and the replay of access logs.`,
		Example: `  headgate serve --limits limits.yaml    # decide for other programs
  headgate limits check limits.yaml      # before you deploy them`,
	}, slices.Concat(serve.Commands(), inspect.Commands(), []*cobra.Command{limits.New(), newMan()})...)
	root.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && (args[0] == "demo" || args[0] == "simulate") {
			return fmt.Errorf("%s is another program's: `headgate-lab %[1]s`", args[0])
		}
		return command.NoSuch(cmd, args)
	}
	return root
}
