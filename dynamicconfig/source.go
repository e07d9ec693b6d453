// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import "context"

// Source is where configurations come from. The packages memory, file, sql/sqlite,
// sql/postgresql and etcd have one each; a service with a dynamic config of its own writes
// another.
//
// Implementations are safe for concurrent use. Each user, such as a Node, has a Source of its own:
// of two that share one, each may miss a change that the other has loaded.
type Source interface {
	// Load returns the present configuration. A missing one is an error, and so is
	// a ctx that has ended.
	Load(ctx context.Context) (*Snapshot, error)

	// Watch calls update, one call at a time, for each change since the
	// last Load (or first with the present configuration, if there was no
	// Load), until ctx ends; then it returns nil. Changes that follow each
	// other closely may come as one. A configuration that is broken or gone
	// is an update with a nil Snapshot and an error, and the watch goes on.
	// Watch returns an error only when it cannot watch any longer. When it
	// has returned, update is not called again.
	Watch(ctx context.Context, update func(*Snapshot, error)) error
}
