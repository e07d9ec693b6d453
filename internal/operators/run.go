// SPDX-License-Identifier: Apache-2.0

package operators

import (
	"context"
	"time"
)

// every calls f at once, and then after each interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		f()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
