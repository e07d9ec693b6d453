// SPDX-License-Identifier: Apache-2.0

// Command headgate-lab shows what headgate does, and measures it.
//
//	headgate-lab demo      five hosts on this machine share one limit; watch them
//	headgate-lab simulate  a cluster on virtual time, beside one perfect bucket
//	headgate-lab replay    an access log, beside one perfect bucket
//	headgate-lab version   what was built
//
// `headgate-lab help` lists all, with examples. It exits with 0 when all went
// well, also when it was interrupted while it ran, and with 1 after an error,
// which it prints on stderr: in one line, and below it the line of a file that has the
// mistake.
//
// Out of scope: what servers and operators need. That is `headgate`.
package main

import (
	"os"

	"github.com/headgate/headgate/internal/command"
)

func main() { os.Exit(command.Run(newRoot())) }
