// SPDX-License-Identifier: Apache-2.0

package stage

import "errors"

// Errors of a wait that would not help.
var (
	// ErrNever means that waiting does not help: the cost is above the burst
	// or the limit, or the limit is zero.
	ErrNever = errors.New("it can never be allowed")

	// ErrTooManyWaiters means that the most callers that may wait for slots of
	// the key on this host wait already.
	ErrTooManyWaiters = errors.New("too many wait for slots in flight")
)
