// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// Updater carries usage to the deciders and grants back. *rpc.Fanout is one.
type Updater interface {
	// Update reports u to the owners of its keys. For each part of u it
	// calls done, one call at a time, as soon as that part's answer is there
	// or given up, and returns after the last. It does not keep u.
	Update(ctx context.Context, u *rpc.Usage, timeout time.Duration, done func(part rpc.Part, grants *rpc.Grants, err error))
}

// Run reports every update_interval, and early what cannot wait, until ctx
// ends. It starts at a random point of the first interval so that hosts do
// not report in step. It is the only loop that a Group needs, and returns
// when all of its calls have.
func (g *Group) Run(ctx context.Context, updater Updater) {
	var rounds sync.WaitGroup
	if g.events != nil {
		defer g.listenUntil(ctx)()
	}
	defer g.join()
	defer rounds.Wait()
	next := Now().Add(time.Duration(rand.Int64N(int64(g.interval()))))
	for {
		if err := g.sleep(ctx, next); err != nil {
			return
		}
		if now := Now(); now < next {
			g.send(ctx, updater, g.Early(now), &rounds)
			continue
		}
		g.send(ctx, updater, g.Report(Now()), &rounds)
		if next = next.Add(g.interval()); next <= Now() {
			// A host that was suspended does not catch up on missed rounds.
			next = Now().Add(g.interval())
		}
	}
}

// sleep waits until next or until Early is due.
func (g *Group) sleep(ctx context.Context, next Instant) error {
	for {
		until := min(next, g.NextEarly())
		if wait := until.Sub(Now()); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-g.wake: // maybe it is due sooner
				timer.Stop()
				continue
			case <-ctx.Done():
				timer.Stop()
			}
		}
		return ctx.Err()
	}
}

// send carries batches to the deciders and applies what is answered in time.
// Each owner costs only its own keys: the others' grants are applied as they
// come. It does not wait.
func (g *Group) send(ctx context.Context, updater Updater, batches []*Batch, rounds *sync.WaitGroup) {
	timeout := g.properties().UpdateTimeout
	for _, b := range batches {
		rounds.Go(func() {
			defer g.recovered(b)
			updater.Update(ctx, &b.Usage, timeout, func(part rpc.Part, grants *rpc.Grants, err error) {
				if err == nil {
					err = g.Apply(Now(), b, part.Rows, grants)
				}
				if err != nil {
					g.Fail(Now(), b, part.Rows)
				}
				g.noteUpdate(part, err)
			})
			g.Done(b)
		})
	}
}

// recovered keeps a panic in somebody's Updater from ending the process: the
// batch is reported again.
func (g *Group) recovered(b *Batch) {
	if p := recover(); p != nil {
		g.Fail(Now(), b, nil)
		g.metrics.unanswered.Inc(1)
		g.log.Error("an update panicked; its keys are reported again", "algorithm", b.Usage.Algorithm, "panic", p)
	}
}

// noteUpdate counts and logs how an owner's part of a round went. Each owner
// is logged when it begins to fail and when it is back, not every time.
func (g *Group) noteUpdate(part rpc.Part, err error) {
	if err == nil {
		g.metrics.answered.Inc(1)
	} else {
		g.metrics.unanswered.Inc(1)
	}
	g.failingMu.Lock()
	before := g.failing[part.Owner]
	if err != nil {
		if g.failing == nil || len(g.failing) > maxFailing {
			g.failing = make(map[string]bool)
		}
		g.failing[part.Owner] = true
	} else {
		delete(g.failing, part.Owner)
	}
	g.failingMu.Unlock()

	switch {
	case err != nil && !before:
		g.log.Warn("an owner does not answer; its keys keep their grants to the end of the lease, then fall back",
			"owner", part.Owner, "keys", len(part.Rows), "error", err)
	case err == nil && before:
		g.log.Info("an owner answers again", "owner", part.Owner)
	}
}

// maxFailing bounds the owners that are remembered as failing.
const maxFailing = 10_000

func (g *Group) properties() dynamicconfig.Properties {
	g.config.RLock()
	defer g.config.RUnlock()

	return g.rules.snapshot.Properties()
}

// listenUntil has events told until ctx ends. What it returns waits for that,
// and for what goes on then.
func (g *Group) listenUntil(ctx context.Context) (join func()) {
	var told sync.WaitGroup
	told.Go(func() { g.events.run(ctx, g.log, g.metrics.droppedEvents) })
	return told.Wait
}
