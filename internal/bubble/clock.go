// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"context"
	"time"
)

// OneWay is how long a message is under way.
const OneWay = 250 * time.Microsecond

// pass waits for the network, one way.
func pass(ctx context.Context) error {
	timer := time.NewTimer(OneWay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
