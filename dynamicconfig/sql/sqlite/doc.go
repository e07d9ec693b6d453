// SPDX-License-Identifier: Apache-2.0

// Package sqlite keeps the history of limits in a SQLite file, without cgo.
//
//	store := sqlite.New("/var/lib/headgate")
//	defer store.Close()
//	v, err := store.Append(ctx, history.Change{Text: text, Author: "ada", Message: "first limits"})
//
// Several processes of one machine may use the file at the same time: a daemon follows what
// the command line stores. A version that was acknowledged outlives a crash of the process
// and of the machine.
//
// Out of scope: files on network file systems, whose locks SQLite cannot trust.
package sqlite
