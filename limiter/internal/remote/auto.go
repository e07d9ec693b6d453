// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Auto is a Rate that asks a Remote, its key's owner, for what it does not have
// itself. With a grant, its bucket decides, and the owner is asked for what the
// bucket refuses: see second. Without one, the owner is asked for each event, and
// the bucket is the fallback's. Reports go on meanwhile, because the owner needs each
// host's demand. Use NewAuto.
type Auto struct {
	Stage
	asks    atomic.Bool // there is no grant; readers need no other field to match it
	changed func(*Auto)
	seconds seconds
	mu      sync.Mutex // held while what is in force changes
}

var (
	_ stage.Stage    = (*Auto)(nil)
	_ share.RatePart = (*Auto)(nil)
)

// NewAuto returns the Auto of r that asks remote. changed is called by what
// changes r, when a begins or ceases to ask for each event.
func NewAuto(r *share.Rate, remote stage.Remote, host Host, changed func(*Auto)) *Auto {
	a := &Auto{changed: changed}
	a.init(r, remote, host)
	a.owned = true
	a.turn()
	return a
}

// Asking implements share.Part.
func (a *Auto) Asking() bool { return a.asks.Load() }

// turn has a ask for each event or not, and reports whether that is new.
func (a *Auto) turn() bool {
	a.unheard.Store(!a.Granted())
	a.SetFallen(false)
	return a.asks.Swap(!a.Granted()) != !a.Granted()
}

func (a *Auto) follow() {
	if a.turn() {
		a.changed(a)
	}
}

// Steer implements share.Part.
func (a *Auto) Steer(now stage.Instant, hosts int) {
	a.mu.Lock()
	a.Rate.Steer(now, hosts)
	a.mu.Unlock()
	a.follow()
}

// Lend implements share.RatePart.
func (a *Auto) Lend(now stage.Instant, more float64, hosts int) {
	a.mu.Lock()
	a.Rate.Lend(now, more, hosts)
	a.mu.Unlock()
	a.follow()
}

// Forget implements share.Part.
func (a *Auto) Forget(now stage.Instant, hosts int) {
	a.mu.Lock()
	a.Rate.Forget(now, hosts)
	a.mu.Unlock()
	a.follow()
}

// Fallen implements share.Part.
func (a *Auto) Fallen() bool { return a.Rate.Fallen() || a.asks.Load() && a.failing.Load() }

// Take implements stage.Stage.
func (a *Auto) Take(ctx context.Context, q stage.Request) (stage.Verdict, stage.Receipt) {
	if a.asks.Load() {
		return a.Stage.Take(ctx, q)
	}
	v, receipt := a.Rate.Take(ctx, q)
	if v.OK() {
		return v, receipt
	}
	return a.second(ctx, q, v)
}

// Settle implements stage.Stage. The bucket that gave the tokens settles them.
func (a *Auto) Settle(now stage.Instant, receipt stage.Receipt, actual int64) {
	switch receipt.Rest.(type) {
	case fromFallback:
		if !a.asks.Load() { // the bucket may be the grant's by now
			receipt.Rest = fromFallback{}
		}
		a.Stage.Settle(now, receipt, actual)
	case fromRemote:
		a.Stage.Settle(now, receipt, actual)
	default:
		a.Rate.Settle(now, receipt, actual)
	}
}

// Idle implements share.Part. Without its grant, which may never fill the bucket, the
// host asks.
func (a *Auto) Idle(now stage.Instant) bool {
	if a.asks.Load() {
		return a.Stage.Idle(now)
	}
	return a.owed.none() && a.full(now) && a.Unused(now)
}

// Level implements stage.Stage.
func (a *Auto) Level(now stage.Instant) stage.Level {
	if a.asks.Load() {
		return a.Stage.Level(now)
	}
	return a.Rate.Level(now)
}
