// SPDX-License-Identifier: Apache-2.0

// Package history is limits as data with a history: every change makes a new version of
// the whole config file, with its author, its time and the reason.
//
//	store := sqlite.New("/var/lib/headgate") // or postgresql.New, etcd.Open
//	v, err := store.Append(ctx, history.Change{Base: 41, Text: text, Author: "ada", Message: "orders: 200/s for the sale"})
//	if c, ok := errors.AsType[*history.Conflict](err); ok {
//		… // c.Newest is another's change: look at it, and try again on top of it
//	}
//	v, err = history.Restore(ctx, store, 41, history.Change{Base: v.Number, Author: "ada"}) // take it back
//
// How a change flows:
//
//	Change ─▶ Check ─▶ Append, if Base is still the newest ─▶ Version ─▶ Source ─▶ Snapshot
//
// A version never changes. A Source is the dynamicconfig.Source of a store: it follows the
// newest version. Package sourcetest has what every store must pass.
//
// Out of scope: where versions are kept (packages sql/sqlite, sql/postgresql and etcd), and
// which algorithms the limits may name (Snapshot.Check).
package history
