// SPDX-License-Identifier: Apache-2.0

package fan

import (
	"context"
	"time"
)

// Within is longest, or less if ctx ends before: then three quarters of what
// is left, so that there is time to answer the caller.
func Within(ctx context.Context, longest time.Duration) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return min(longest, max(time.Until(deadline), 0)*3/4)
	}
	return longest
}
