// SPDX-License-Identifier: Apache-2.0

// Command headgate shows what headgate does.
//
//	headgate demo      five hosts on this machine share one limit; watch them
//	headgate version   what was built
//
// `headgate help` lists all, with examples. It exits with 0 when all went
// well, also when it was interrupted while it ran, and with 1 after an error,
// which it tells in one line on stderr.
//
// Out of scope: limiting by itself. Services link package headgate for that.
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
