// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// handOverWithin bounds each call to the next owner of keys.
const handOverWithin = 2 * time.Second

// HandOver implements Lifecycle: what is left in buckets is sent whenever keys
// move, and what hosts hold only when this host leaves, because else they
// report it themselves.
func (a *Aggregator) HandOver(ctx context.Context, c Cluster) error {
	var parts []*claims.Claims
	if c.Leaving {
		a.keys.Parent.Moved(c.Owns)
		a.keys.Left.Store(true) // what it grants from now on, the next owners would not learn
		parts = a.Handover(Now())
	}
	// All at once: a next owner that does not answer keeps no other one waiting.
	errs := make([]error, len(parts)+1)
	var all sync.WaitGroup
	claimant := claims.Claimant{Host: c.Host, Placement: c.Placement, Peers: c.Peers, Timeout: handOverWithin}
	for i, part := range parts {
		all.Go(func() {
			_, failed := claimant.Claim(ctx, part)
			if failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil }); len(failed) > 0 {
				errs[i] = fmt.Errorf("%d leases: %w", len(failed), failed[0])
			}
		})
	}
	taker := ask.Taker{Host: c.Host, Placement: c.Placement, Peers: c.Peers, Timeout: handOverWithin}
	errs[len(parts)] = taker.Send(ctx, a.Buckets(Now(), func(key string) bool { return !c.Owns(key) }))
	all.Wait()
	return errors.Join(errs...)
}

// Handover yields what hosts hold at now of the keys that a leases out, as
// claims to keep it: for the owners that take over when this one leaves. Each
// part fits in a message. Other keys need none: their hosts report what they
// have.
func (c *Core) Handover(now time.Duration) (parts []*claims.Claims) {
	for part := range slices.Chunk(c.keys.Leases(now, c.settings.Load()), rpc.MaxKeys) {
		parts = append(parts, &claims.Claims{Rows: part})
	}
	return parts
}

// HandoverBuckets stops deciding, and returns what is left at now in the
// buckets of a, as takes of nothing: for the owners that take over. A full
// bucket needs none.
func (c *Core) HandoverBuckets(now time.Duration) []usage.Take {
	c.keys.Left.Store(true)
	return c.Buckets(now, func(string) bool { return true })
}

// Buckets returns what is left at now in the buckets of the keys that moved
// holds for, as HandoverBuckets does. They go on deciding, for callers that have
// not learned yet who owns the key now.
func (c *Core) Buckets(now time.Duration, moved func(key string) bool) []usage.Take {
	return c.keys.Buckets(now, c.number, moved)
}
