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
// bucket refuses: see askOwner. Without one, the owner is asked for each event, and
// the bucket is the fallback's. Reports go on meanwhile, because the owner needs each
// host's demand. Use NewAuto.
type Auto struct {
	Stage
	asks    atomic.Bool // there is no grant; readers need no other field to match it
	changed func(*Auto)
	asking  asking
	told    share.Asked // by TakeElsewhere
	mu      sync.Mutex  // held while what is in force changes
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

// Asked is what was asked so far. Safe for concurrent use.
func (a *Auto) Asked() share.Asked {
	s := &a.asking
	return share.Asked{Asks: s.asked.Load(), Granted: s.granted.Load(), Withheld: s.withheld.Load(), Lent: s.lent.Load()}
}

// NotBefore is the Instant until which asking for an event such as the last one that
// was refused is known not to help. Safe for concurrent use.
func (a *Auto) NotBefore() stage.Instant {
	if last := a.asking.last.Load(); last != nil {
		return last.until
	}
	return 0
}

// TakeElsewhere implements share.Part.
func (a *Auto) TakeElsewhere() (admitted int64, asked share.Asked) {
	admitted, _ = a.Stage.TakeElsewhere()
	now := a.Asked()
	asked, a.told = now.Since(a.told), now
	return admitted, asked
}

// turn has a ask for each event or not, and reports whether that is new.
func (a *Auto) turn() bool {
	a.unheard.Store(!a.Granted())
	a.SetFallen(0, false)
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
func (a *Auto) Lend(now stage.Instant, more float64, hosts int) (left float64) {
	a.mu.Lock()
	left = a.Rate.Lend(now, more, hosts)
	a.mu.Unlock()
	a.follow()
	return left
}

// Forget implements share.Part.
func (a *Auto) Forget(now stage.Instant, hosts int) {
	a.mu.Lock()
	a.Rate.Forget(now, hosts)
	a.mu.Unlock()
	a.follow()
}

// Fallen implements share.Part.
func (a *Auto) Fallen() bool { return a.Rate.Fallen() || a.asks.Load() && a.failing.Holds() }

// FallenSince implements share.Part.
func (a *Auto) FallenSince() (stage.Instant, bool) {
	if since, ok := a.Rate.FallenSince(); ok || !a.asks.Load() {
		return since, ok
	}
	return a.failing.At()
}

// Take implements stage.Stage.
func (a *Auto) Take(ctx context.Context, q stage.Request) (stage.Verdict, stage.Receipt) {
	if a.asks.Load() {
		return a.Stage.Take(ctx, q)
	}
	soon := q
	if q.Longest > 0 && q.Kind != stage.Charge {
		soon.Longest = min(q.Longest, a.Terms().Rule.AskTimeout/roundTrips)
	}
	v, receipt := a.Rate.Take(ctx, soon)
	if v.OK() {
		return v, receipt
	}
	if soon.Longest == q.Longest {
		return a.askOwner(ctx, q, v)
	}
	return a.askBeforeWait(ctx, q, soon, v)
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

// Refill implements share.RatePart.
func (a *Auto) Refill(now stage.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.Rate.Refill(now)
}

// RefillElsewhere is Stage's. From then on, a asks again.
func (a *Auto) RefillElsewhere(ctx context.Context, now stage.Instant) error {
	err := a.Stage.RefillElsewhere(ctx, now)
	a.asking.last.Store(nil)
	return err
}
