// SPDX-License-Identifier: Apache-2.0

// Package askingtest has what the tests of middleware ask instead of limits.
package askingtest

import (
	"context"
	"time"

	"github.com/headgate/headgate/rpc/edge"
)

// Noting decides as it is told, and notes what it was asked last. For one
// goroutine at a time.
type Noting struct {
	Decision edge.Decision
	Key      string
	Cost     int64
}

var _ edge.Buckets = (*Noting)(nil)

// Decide implements edge.Buckets.
func (n *Noting) Decide(_ context.Context, key string, cost int64, _ time.Duration) edge.Decision {
	n.Key, n.Cost = key, cost
	return n.Decision
}
