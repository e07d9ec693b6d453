// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"time"
)

// Settler is a Buckets for events whose cost is known afterwards.
type Settler interface {
	Buckets

	// Reserve is Decide of what an event is thought to cost. settle says what
	// it did cost, at least 0: the difference is given back, or goes into debt.
	// Only its first call does anything, and what is never settled stays taken.
	// It is never nil.
	Reserve(ctx context.Context, key string, n int64, longest time.Duration) (d Decision, settle func(cost int64))

	// Charge takes n tokens of key, at least 1, for what has happened already,
	// into debt if need be. The Decision is OK unless there is no such bucket.
	Charge(key string, n int64) Decision
}
