// SPDX-License-Identifier: Apache-2.0

package rpctest

import (
	"context"
	"time"
)

// wait waits for d, or for as long as ctx lives.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
