// SPDX-License-Identifier: Apache-2.0

// Package loop is the shell of package report that keeps time: it makes reports when
// they are due, sends them, and takes in the answers as they come.
//
//	l := &loop.Loop{Steps: set, Reporter: reporter, Updater: fanout, …}
//	l.Run(ctx)
//
// The package does not know what a report says.
package loop
