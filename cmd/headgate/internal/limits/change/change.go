// SPDX-License-Identifier: Apache-2.0

// Package change has the commands that change the limits in a file or in a database, and diff,
// which says what a change is.
//
// All but diff and prune go one way: the command makes a new text of the newest one, the text is
// checked, what differs is printed, what is dangerous is asked, and the text is stored.
//
// Out of scope: how a text is edited (dynamicconfig/edit), and how a change is watched after it was
// stored, or made in steps (package rollout).
package change

import "github.com/spf13/cobra"

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{newDiff(), newSet(), newRm(), newEdit(), newApply(), newRollback(), newOverride(), newBypass(), newPrune()}
}
