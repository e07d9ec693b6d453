// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"sync/atomic"

	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Auto is a Rate that asks a Remote, its key's owner, for each event while the
// owner says so, with a grant of nothing. Else its bucket decides, and the owner
// is asked for what the bucket refuses: see second. Before an owner has said
// anything it asks for each event if its even part is too small.
//
// While an Auto asks, its own bucket is the fallback's, and reports go on, because
// the owner needs each host's demand. Use NewAuto.
type Auto struct {
	Stage
	asks    atomic.Bool // readers need no other field to match it
	changed func(*Auto)
	seconds seconds
}

var (
	_ stage.Stage    = (*Auto)(nil)
	_ share.RatePart = (*Auto)(nil)
)

// worthwhile is how many events an even part must allow in an interval for a
// host to begin with it. With fewer the owner is asked.
const worthwhile = 2

// NewAuto returns the Auto of r that asks remote. changed is called by what
// changes r, when a begins or ceases to ask.
func NewAuto(r *share.Rate, remote stage.Remote, host Host, hosts int, changed func(*Auto)) *Auto {
	a := &Auto{changed: changed}
	a.init(r, remote, host)
	a.owned = true
	a.turn(hosts)
	return a
}

// Asking implements share.Part.
func (a *Auto) Asking() bool { return a.asks.Load() }

// shouldAsk reports whether a is to ask for each event, in a cluster of so many
// hosts.
func (a *Auto) shouldAsk(hosts int) bool {
	switch g := a.Grant(); {
	case a.Granted():
		return false
	case g.Given:
		return g.Nothing
	}
	return float64(a.Terms().Even(hosts).Limit)*a.host.Interval().Seconds() < worthwhile
}

// turn has a ask or not, and reports whether that is new.
func (a *Auto) turn(hosts int) bool {
	asks := a.shouldAsk(hosts)
	a.unheard.Store(!a.Grant().Given)
	a.SetFallen(!a.Granted() && !asks)
	return a.asks.Swap(asks) != asks
}

func (a *Auto) follow(hosts int) {
	if a.turn(hosts) {
		a.changed(a)
	}
}

// Steer implements share.Part.
func (a *Auto) Steer(now stage.Instant, hosts int) {
	a.Rate.Steer(now, hosts)
	a.follow(hosts)
}

// Lend implements share.RatePart.
func (a *Auto) Lend(now stage.Instant, more float64, hosts int) {
	a.Rate.Lend(now, more, hosts)
	a.follow(hosts)
}

// Forget implements share.Part.
func (a *Auto) Forget(now stage.Instant, hosts int) {
	a.Rate.Forget(now, hosts)
	a.follow(hosts)
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

// Level implements stage.Stage.
func (a *Auto) Level(now stage.Instant) stage.Level {
	if a.asks.Load() {
		return a.Stage.Level(now)
	}
	return a.Rate.Level(now)
}
