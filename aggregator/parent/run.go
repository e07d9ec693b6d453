// SPDX-License-Identifier: Apache-2.0

// Package parent is being a client of the cluster above: a key whose rule has a parent
// shares what that cluster leases to this one, and not its rule's limit.
//
//	hosts ──▶ key, its account ──▶ Lease ──▶ Client ──Claiming──▶ owners above
//
// The aggregator has a Lease for each such key, and one Client, which Run drives.
// Under Run there are Ask and Hear, which have no clock and no I/O. The package knows
// of a key what its account says that hosts want, and nothing of reports.
package parent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
)

// Claiming asks the owners of keys for leases. A claims.Claimant does. Claim returns
// when ctx ends, and may change asked. A call that panics, or ends its goroutine, is one without
// an answer. While a call does not return, there is no other.
type Claiming interface {
	Claim(ctx context.Context, asked *claims.Claims) (*claims.Leases, []error)
}

// Run claims the capacity of keys from the cluster above, where this cluster is called
// host, until ctx ends.
func (c *Client) Run(ctx context.Context, host string, above Claiming) {
	ticker := time.NewTicker(MinRefresh)
	defer ticker.Stop()

	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if asked := c.Ask(c.clock(), host); asked != nil {
			leases, errs := c.claim(ctx, above, asked)
			c.Hear(c.clock(), asked, leases, errs)
		}
	}
}

const (
	// claimWithin bounds a call of the cluster above. Without an answer in this time
	// the keys are asked for again.
	claimWithin = 10 * time.Second
	// endsWithin is for how long a call may go on after its context has ended.
	endsWithin = time.Second
)

// errEnds is the error of a call that ended its goroutine.
var errEnds = errors.New("the call ended its goroutine")

// claim calls above, which is anybody's code, on a goroutine that it may end. Claim waits for a call
// that ignores its context until running ends: there is one call at a time.
func (c *Client) claim(running context.Context, above Claiming, asked *claims.Claims) (*claims.Leases, []error) {
	ctx, cancel := context.WithTimeout(running, claimWithin)
	defer cancel()
	hangs := time.AfterFunc(claimWithin+endsWithin, func() {
		c.refuse("the call of the cluster above does not return; nothing is claimed there until it does", context.DeadlineExceeded)
	})
	defer hangs.Stop()
	var leases *claims.Leases
	var errs []error
	failed, done := errEnds, make(chan struct{})
	go func() {
		defer close(done)
		defer rpc.Recovered(&failed)
		leases, errs = above.Claim(ctx, &claims.Claims{Rows: slices.Clone(asked.Rows)}) // which it may change
		failed = nil
	}()
	select {
	case <-done:
	case <-running.Done():
		select {
		case <-done:
		case <-time.After(endsWithin):
			return nil, nil
		}
	}
	if failed != nil {
		c.refuse("the call of the cluster above failed", failed)
	}
	return leases, errs
}
