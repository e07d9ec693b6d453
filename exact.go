// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/rpc"
)

// The buckets of exact keys are the aggregator's, whoever asks for them.
var _ rpc.Keeper = (*aggregator.Aggregator)(nil)

// owners are the buckets of exact keys, each at its owner.
func (n *Node) owners() exact.Owners { return exact.New(n.taker) }
