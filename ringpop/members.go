// SPDX-License-Identifier: Apache-2.0

package ringpop

import "context"

// Members knows which hosts there are. Services that have their own ringpop
// or service discovery implement it, or hand their lists to package hosted.
//
// Implementations are safe for concurrent use. Calls of Watch are independent.
type Members interface {
	// Watch calls update with the current hosts at once, also when there are
	// none, and with all hosts again after each change, one call at a time, until
	// ctx ends; then it returns nil. It may skip lists that are no longer the newest, but never
	// the newest. It returns an error when it cannot watch at all.
	// The list is update's to keep and change; no call comes after Watch
	// has returned.
	Watch(ctx context.Context, update func(hosts []Host)) error
}
