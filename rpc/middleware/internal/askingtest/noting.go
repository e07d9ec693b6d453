// SPDX-License-Identifier: Apache-2.0

// Package askingtest has what the tests of middleware ask instead of limits. It knows no protocol.
package askingtest

import (
	"context"

	"github.com/headgate/headgate/rpc/edge"
)

// Noting decides as it is set to, and notes what it was asked last. For one
// goroutine at a time.
type Noting struct {
	Decision edge.Decision
	Key      string
	Cost     int64
}

var _ edge.Engine = (*Noting)(nil)

// Decide implements edge.Engine.
func (n *Noting) Decide(_ context.Context, a edge.Ask) edge.Decision {
	n.Key, n.Cost = a.Key, a.Cost
	return n.Decision
}
