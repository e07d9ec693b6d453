// SPDX-License-Identifier: Apache-2.0

// Package limitsdb finds the limits that a command works on. DB is a database of limits, which
// flags name: a directory, a database on a server, or that of a decider. Source is a file, or a
// version of a database, for commands that only read.
//
//	var l limitsdb.DB
//	l.Flags(cmd.Flags())
//	…
//	return l.Use(cmd, func(ctx context.Context, db daemon.LimitsDB) error { … })
//
// Out of scope: how databases keep limits (dynamicconfig/history and the packages beside it),
// and what commands do with them.
package limitsdb
