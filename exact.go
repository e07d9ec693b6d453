// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/rpc"
)

// owners are the buckets of exact keys, each at its owner.
type owners struct{ taker *rpc.Taker }

var (
	_ limiter.Remote = owners{}
	_ rpc.Keeper     = (*aggregator.Aggregator)(nil)
)

// Take implements limiter.Remote.
func (o owners) Take(ctx context.Context, t limiter.Take) (limiter.Taken, error) {
	take := rpc.Take{Key: t.Key, Tokens: t.N, Longest: min(t.Longest, rpc.MaxWait)}
	if t.Charge {
		take.Spent = rpc.SpentBeyond
	}
	took, err := o.taker.Take(ctx, take)
	if err != nil {
		return limiter.Taken{}, err
	}
	taken := limiter.Taken{OK: took.OK, Wait: took.Wait, RetryAfter: took.Retry, Left: took.Left}
	if taken.RetryAfter == rpc.MaxWait {
		taken.RetryAfter = 0 // no wait would do
	}
	return taken, nil
}
