// SPDX-License-Identifier: Apache-2.0

// Package read has the commands that read limits, in a file or in a database, and change none:
// they check, list, show and export them, and import those of other rate limiters.
//
// Out of scope: how files are checked (package limitsfile), and how a version of a database is
// found (package limitsdb).
package read

import "github.com/spf13/cobra"

// Commands are the commands of this package.
func Commands() []*cobra.Command {
	return []*cobra.Command{newCheck(), newList(), newGet(), newShow(), newImport(), newOverrides(), newHistory(), newExport()}
}
