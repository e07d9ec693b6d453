// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"

	"google.golang.org/protobuf/types/known/anypb"
)

// Decider answers what hosts send to the owner of their keys. The transport to
// a remote owner, the in-memory network and the aggregator are all Deciders, so
// one stands in for another.
//
// Implementations are safe for concurrent use, return before ctx ends or
// promptly after, and neither keep nor change payload after they have returned.
type Decider interface {
	// Update hands over a message from host and returns the answer. The
	// payload's type URL chooses the message family: see Mux.
	Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error)
}

// DeciderFunc is a function as a Decider.
type DeciderFunc func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error)

// Update implements Decider.
func (f DeciderFunc) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	return f(ctx, host, payload)
}

// Placement says which host owns a key. Implementations are safe for concurrent
// use.
type Placement interface {
	// Owner is the address of the host that decides key, or "" if there is none.
	Owner(key string) string
}

// Peers finds the Decider of another host. Implementations are safe for
// concurrent use and return at once: the first call dials.
type Peers interface {
	// Peer is the Decider at address, as the Placement writes it.
	Peer(address string) (Decider, error)
}

// ErrNoOwner is the error of keys for which the Placement has no owner.
var ErrNoOwner = errors.New("rpc: no host owns these keys, because the list of members is empty, or not known before Start")

// KeysPerCall is how many keys one call carries at most.
const KeysPerCall = 10_000
