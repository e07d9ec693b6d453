// SPDX-License-Identifier: Apache-2.0

package edge

import (
	"context"
	"time"
)

// Await has e decide about a, which is a Take, and waits for what the Decision says, or
// until nothing limits the key any more. A
// request that would wait beyond ctx's deadline is refused at once, as Limited, so that
// it does not hold the turn of another. When ctx ends earlier, the Decision is not OK,
// the error is ctx's, and the tokens are given back if the Decision of the Take says what is
// Held. An Engine that has no way to give tokens back, such as quotaservice.Client, says nothing:
// then they stay taken.
func Await(ctx context.Context, e Engine, a Ask) (Decision, error) {
	if deadline, ok := ctx.Deadline(); ok && a.Longest > 0 {
		a.Longest = min(a.Longest, max(time.Until(deadline), 0))
	}
	d := e.Decide(ctx, a)
	switch {
	case !d.OK && d.Reason == Limited && ctx.Err() != nil: // because it ended, or as well
		return d, ctx.Err()
	case d.Wait <= 0:
		return d, nil
	case d.Held != nil:
		if w := e.Decide(ctx, Ask{Kind: Wait, Held: d.Held}); !w.OK {
			return w, ctx.Err()
		}
		return d, nil
	}
	select {
	case <-time.After(d.Wait):
		return d, nil
	case <-ctx.Done():
		return Decision{Reason: Limited}, ctx.Err()
	}
}
