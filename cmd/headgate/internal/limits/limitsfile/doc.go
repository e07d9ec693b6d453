// SPDX-License-Identifier: Apache-2.0

// Package limitsfile reads and checks files of limits, and folders of them, for commands.
//
//	s, found := limitsfile.CheckFile(cmd.InOrStdin(), "limits.yaml", nil)
//	if s == nil {
//		found.Tell(cmd.ErrOrStderr())
//	}
//
// Out of scope: what a file may say (package dynamicconfig), databases of limits (package
// limitsdb), and changes of a file (package change).
package limitsfile
