// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"time"
)

// Await decides as b does and waits for what the Decision says. A request that
// would wait beyond ctx's deadline is refused at once, as Limited, so that it does
// not hold the turn of another. When ctx ends earlier, the Decision is not OK, the
// error is ctx's, and the tokens are given back if b is a Holder.
func Await(ctx context.Context, b Buckets, key string, n int64, longest time.Duration) (Decision, error) {
	if longest <= 0 { // nothing to wait for, and so nothing to give back
		return b.Decide(ctx, key, n, 0), nil
	}
	if deadline, ok := ctx.Deadline(); ok {
		longest = min(longest, max(time.Until(deadline), 0))
	}
	if err := ctx.Err(); err != nil {
		return Decision{Reason: Limited}, err
	}
	d, cancel := hold(ctx, b, key, n, longest)
	switch {
	case !d.OK && ctx.Err() != nil: // perhaps because it ended
		return Decision{Reason: Limited}, ctx.Err()
	case !d.OK || d.Wait <= 0:
		return d, nil
	}
	timer := time.NewTimer(d.Wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return d, nil
	case <-ctx.Done():
		cancel()
		return Decision{Reason: Limited}, ctx.Err()
	}
}

func hold(ctx context.Context, b Buckets, key string, n int64, longest time.Duration) (d Decision, cancel func()) {
	if h, ok := b.(Holder); ok {
		return h.Hold(ctx, key, n, longest)
	}
	return b.Decide(ctx, key, n, longest), func() {}
}
