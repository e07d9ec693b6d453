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

// Split is Members that notice that the cluster may be split, and this host on the smaller
// side: the deciders of the other side may live, and grant all of each limit. Owners on this
// side then grant the part of the hosts that are there.
type Split interface {
	Members

	// Missing is how many deciders may be on the other side, beside those on the newest
	// list; 0 unless they are more than those. When it changes, Watch calls update.
	Missing() int
}
