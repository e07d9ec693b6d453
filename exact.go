// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/rpc"
)

// The buckets of exact and of auto keys are the aggregator's, whoever asks for
// them.
var _ rpc.Keeper = (*aggregator.Aggregator)(nil)
