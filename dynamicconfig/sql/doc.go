// SPDX-License-Identifier: Apache-2.0

// Package sql keeps the history of limits in a table of a SQL database. Packages sqlite and
// postgresql open the databases; a program links only the one that it uses.
//
//	store := sqlite.New("/var/lib/headgate")
//	defer store.Close()
//	node, err := headgate.New(config, store, members) // a store is a dynamicconfig.Source
//
// Each change is one transaction, which inserts one row. Its number is the primary key, so
// of several changes on the same version, one is stored. Migrations make the table.
//
// Out of scope: other SQL databases. A store is safe for concurrent use: one lock guards the open
// database, which has the rest.
package sql
