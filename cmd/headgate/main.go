// SPDX-License-Identifier: Apache-2.0

// Command headgate decides about limits for programs that do not link it.
//
//	headgate serve     a decider of a cluster, asked over gRPC
//	headgate limits    check, show and import files of limits
//	headgate version   what was built
//
// `headgate help` lists all, with examples. It exits with 0 when all went
// well, also when it was interrupted while it ran, and with 1 after an error,
// which it prints on stderr: in one line, and below it the line of a file that has the
// mistake. `headgate limits --help` has the other exit codes of its commands.
//
// Out of scope: the limiters of services in Go. Those link package headgate, or
// limiter/client beside a `headgate serve`. The demo and the simulator are
// `headgate-lab`, so that servers do not link what draws pictures.
package main

import (
	"os"

	"github.com/headgate/headgate/internal/command"
)

func main() { os.Exit(command.Run(newRoot())) }
