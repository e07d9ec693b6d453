// SPDX-License-Identifier: Apache-2.0

// Package command is what the programs in cmd have in common: how they run,
// how they report a mistake, and their `version`.
//
//	func main() { os.Exit(command.Run(newRoot())) }
//
// A program exits with 0 when all went well, also when it was interrupted while
// it ran, and with 1 after an error, which it prints in one line on stderr. WithCode gives
// an error another exit code.
//
// Out of scope: what the programs do.
package command
