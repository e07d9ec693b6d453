// SPDX-License-Identifier: Apache-2.0

// Package exact has a host's limiters ask the owners of keys for each event:
// the keys of rules with `algorithm: exact`, whose limits are too low to split,
// and those with `algorithm: auto` while their limits are.
//
//	taker := &rpc.Taker{Host: host, Placement: ring, Peers: client}
//	group := limiter.NewGroup(limits, 1,
//		limiter.WithRemote(exact.Name, exact.New(taker)),
//		limiter.WithRemote(limiter.Auto, exact.NewAuto(taker)))
//
// The package is no more than the words of limiter.Remote for an rpc.Taker,
// which batches, gives up and learns. Out of scope: the buckets, which package
// aggregator keeps.
package exact

import (
	"context"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/rpc"
)

// Name is the algorithm of the rules whose keys are asked for.
const Name = "exact"

// Owners are the buckets of keys, each at its owner. Use New or NewAuto. Safe
// for concurrent use.
type Owners struct {
	taker *rpc.Taker
	auto  bool
}

var _ limiter.Remote = Owners{}

// New returns the Owners that taker asks.
func New(taker *rpc.Taker) Owners { return Owners{taker: taker} }

// NewAuto returns the Owners that taker asks for keys under limiter.Auto.
func NewAuto(taker *rpc.Taker) Owners { return Owners{taker, true} }

// Take implements limiter.Remote. The errors are those of rpc.Taker.
func (o Owners) Take(ctx context.Context, t limiter.Take) (limiter.Taken, error) {
	take := rpc.Take{Key: t.Key, Auto: o.auto, Tokens: t.N, Longest: min(t.Longest, rpc.MaxWait)}
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
