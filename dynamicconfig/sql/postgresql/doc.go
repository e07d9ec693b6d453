// SPDX-License-Identifier: Apache-2.0

// Package postgresql keeps the history of limits in PostgreSQL, for several machines.
//
//	store, err := postgresql.New("postgres://headgate@db.example.com/headgate?sslmode=verify-full")
//	defer store.Close()
//	node, err := headgate.New(config, store, members)
//
// The password may be in PGPASSWORD or in the file ~/.pgpass, as for psql. A change is
// notified to all that watch (LISTEN and NOTIFY), who poll too. While the server is gone,
// each goes on with the limits that it has, and tries again.
//
// The user must own the tables headgate_limits and headgate_migrations, or be allowed to make
// them in the first schema of its search_path.
//
// Out of scope: what a version says, and other databases. The server keeps all state; a store is
// safe for concurrent use.
package postgresql
