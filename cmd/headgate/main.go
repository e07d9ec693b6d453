// SPDX-License-Identifier: Apache-2.0

// Command headgate decides about limits for programs that do not link it, and
// shows what it does.
//
//	headgate serve     a decider of a cluster, asked over gRPC
//	headgate limits    check, show and import files of limits
//	headgate demo      five hosts on this machine share one limit; watch them
//	headgate simulate  a cluster on virtual time, beside one perfect bucket
//	headgate version   what was built
//
// `headgate help` lists all, with examples. It exits with 0 when all went
// well, also when it was interrupted while it ran, and with 1 after an error,
// which it tells in one line on stderr.
//
// Out of scope: the limiters of services in Go. Those link package headgate, or
// limiter/client beside a `headgate serve`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The second Ctrl-C ends it by force.
	defer context.AfterFunc(ctx, stop)()
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "headgate:", oneLine(err))
		return 1
	}
	return 0
}

// oneLine joins the lines of an error of many parts.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' }), "; ")
}
