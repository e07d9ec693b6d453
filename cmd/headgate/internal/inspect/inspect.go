// SPDX-License-Identifier: Apache-2.0

// Package inspect has the commands that ask a running decider what it does: cluster, keys,
// explain, trace, events and top, and shadow, which also takes migrations further.
//
// Each of them names a decider with --admin, asks it, and prints the answer.
//
// Out of scope: files and databases of limits. The commands below `headgate limits` have them.
package inspect

import "github.com/spf13/cobra"

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{newCluster(), newTop(), newKeys(), newExplain(), newTrace(), newShadow(), newEvents()}
}
