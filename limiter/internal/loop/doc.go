// SPDX-License-Identifier: Apache-2.0

// Package loop is the shell of package report that keeps time: it makes reports when
// they are due, sends them, and takes in the answers as they come.
//
//	l := &loop.Loop{Steps: set, Reporter: reporter, Updater: fanout, …}
//	l.Run(ctx)
//
// The package does not know what a report says. A Loop has a lock for which owners do not answer;
// the Steps guard their own state.
package loop
