// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/limiter/internal/loop"
	"github.com/headgate/headgate/limiter/stage"
)

// Updater carries usage to the owners of keys and grants back. *usage.Fanout is
// one.
type Updater = loop.Updater

// Run reports every update_interval, and early what cannot wait, until ctx
// ends. It starts at a random point of the first interval so that hosts do
// not report in step. It is the only loop that a Group needs, and returns
// when all of its calls have.
func (g *Group) Run(ctx context.Context, updater Updater) {
	var listening sync.WaitGroup
	if g.events != nil {
		listening.Go(func() { g.events.Run(ctx, g.log, g.dropped.Inc) })
	}
	defer listening.Wait()
	defer g.keys.Flush()
	g.keys.Reports().Loop(updater).Run(ctx)
}

// Leave gives back what the host holds, so that other hosts have it at once and not
// when the leases end: a last report says that this host wants nothing. From then
// on, limiters use their fallbacks, slots stay held until they are released, and
// the host reports nothing. It returns when all owners have
// answered, after update_timeout at the latest, or when ctx ends. Call it after
// Run has returned, when the service has stopped.
func (g *Group) Leave(ctx context.Context, updater Updater) {
	var calls sync.WaitGroup
	g.keys.Reports().Loop(updater).SendLast(ctx, g.keys.Reports().Last(stage.Now()), &calls)
	calls.Wait()
}

// sleep waits until d has passed or ctx ends, and then returns its error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
