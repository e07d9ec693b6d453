// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"math"
	"sync"

	"github.com/headgate/headgate/rpc"
)

// Leave gives back what the host holds, so that others have it at once and not
// when its leases end: a last report says that it wants nothing. Limiters go by
// their fallbacks from then on, slots that are held stay held until they are
// released, and nothing is reported any more. It returns when all owners have
// answered, after update_timeout at the latest, or when ctx ends. Call it when
// Run has returned, and nothing is to be limited any more.
func (g *Group) Leave(ctx context.Context, updater Updater) {
	batches := g.leave(Now())
	timeout := g.properties().UpdateTimeout
	var owners sync.WaitGroup
	for _, b := range batches {
		owners.Go(func() {
			defer g.recovered(b)
			updater.Update(ctx, &b.Usage, timeout, func(part rpc.Part, _ *rpc.Grants, err error) { g.noteUpdate(part, err) })
		})
	}
	owners.Wait()
}

// leave is the last report of what is held: by lease, as tokens or as slots.
func (g *Group) leave(now Instant) []*Batch {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.mergeLocked()
	hosts, batches := int(g.hosts.Load()), g.batchesLocked(now, false, nil)
	for _, k := range g.live {
		for _, s := range k.core.shares {
			if !s.remote || !s.grant.given || !s.wanting && !s.prompt() {
				continue
			}
			s.stated.Store(math.Float64bits(0))
			s.forget(now, hosts)
			s.report(now, batches)
		}
	}
	return batches.sorted()
}
