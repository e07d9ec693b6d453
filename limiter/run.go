// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"time"
)

// sleep waits until d has passed or ctx ends, and then returns its error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
