// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"

	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Auto is a Rate that asks a Remote, its key's owner, for what it does not have
// itself. With a grant, its bucket decides, and the owner is asked for what the
// bucket refuses: see askOwner. Without one, the owner is asked for each event, and
// the bucket is the fallback's. Reports go on meanwhile, because the owner needs each
// host's demand. Use NewAuto.
type Auto struct{ asker }

var _ share.RatePart = (*Auto)(nil)

// NewAuto returns the Auto of r that asks the Remote of l.
func NewAuto(r *share.Rate, l *Link) *Auto {
	a := new(Auto)
	a.init(r, l)
	a.set(owned, true)
	a.follow()
	return a
}

// NotLent is how many tokens the owner of p has beside what hosts hold as grants, as far as this host knows: as many as
// when it last answered, and what has come in since of the limit that hosts did not use. Until the owner answers, it may have as
// many above these as Cap took away. Both are 0 unless p is an Auto.
func NotLent(now stage.Instant, p share.Part) (tokens, above float64) {
	if a, ok := p.(*Auto); ok {
		return a.tokens.NotLent(now, a.Terms().Rule, a.UsedLately()), a.tokens.Above()
	}
	return 0, 0
}

// Asking implements share.Part.
func (a *Auto) Asking() bool { return a.is(asks) }

// Charging implements share.Part.
func (a *Auto) Charging() bool { return a.outbox.HasBarrier() }

// TakeAdmitted implements share.Part.
func (a *Auto) TakeAdmitted(asked *share.Asked) (admitted int64) {
	if s := a.asking.Load(); s != nil {
		now := a.Asked()
		if news := now.Since(s.reported); news != (share.Asked{}) && asked != nil {
			*asked = asked.Plus(news)
		}
		s.reported = now
	}
	return a.Stage.TakeAdmitted(nil)
}

// follow has a ask for each event unless there is a grant.
func (a *Auto) follow() {
	without := !a.Granted()
	a.SetFallback(0, false)
	a.set(asks, without)
}

// SetTerms implements share.Part. What the owner refused under another limit says nothing about this one.
func (a *Auto) SetTerms(now stage.Instant, t *share.Terms) {
	before := a.Terms().Rule
	a.Stage.SetTerms(now, t)
	changed := before.Limit != t.Rule.Limit || before.Burst != t.Rule.Burst || before.MaxDebt != t.Rule.MaxDebt
	if s := a.asking.Load(); changed && s != nil && s.missed.Load() == 0 {
		s.last.Store(nil)
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
	had := a.Granted()
	a.mu.Lock()
	if left = a.Rate.Lend(now, more, hosts); !had {
		more = left
	}
	a.tokens.Lend(now, a.Terms().Rule, a.UsedLately(), more)
	if a.Active().Limit < 1 { // else it reports early
		a.askAheadBelow(left, fewest+1) // its first event may begin a burst
	} else if a.low.Load() != 0 {
		a.low.Store(0)
	}
	a.mu.Unlock()
	if !had {
		a.follow()
	}
	return left
}

// Forget implements share.Part.
func (a *Auto) Forget(now stage.Instant, hosts int) {
	a.mu.Lock()
	a.Rate.Forget(now, hosts)
	a.mu.Unlock()
	a.follow()
}

// Take implements stage.Stage.
func (a *Auto) Take(ctx context.Context, q stage.Request) (stage.Verdict, stage.Receipt) {
	if a.is(asks) {
		return a.Stage.Take(ctx, q)
	}
	soon := q
	if q.Longest > 0 && q.Kind < stage.Charge {
		soon.Longest = min(q.Longest, a.Terms().Rule.AskTimeout/roundTrips)
	}
	v, receipt := a.Rate.Take(ctx, soon)
	if v.OK() {
		a.ranLow(ctx, q.Now)
		return v, receipt
	}
	if soon.Longest == q.Longest || v.Reason == stage.TooCostly && float64(q.N) > a.Terms().Rule.Costliest() {
		return a.askOwner(ctx, q, v) // no wait helps an event that costs more than any may
	}
	return a.askBeforeWait(ctx, q, soon, v)
}

// Allow implements stage.Stage.
func (a *Auto) Allow(ctx context.Context, now stage.Instant) stage.Reason {
	if a.is(asks) {
		return a.Stage.Allow(ctx, now)
	}
	if a.TakeOne(now) { // which reads one cache line of the Rate, and not its terms
		a.ranLow(ctx, now)
		return stage.Granted
	}
	q := stage.Request{Now: now, N: 1, Kind: stage.Final}
	if _, stands := a.lastRefusal().Stands(q); stands {
		return stage.Limited // as askOwner does, which also says when to retry
	}
	v, _ := a.askOwner(ctx, q, stage.Because(stage.Limited))
	return v.Reason
}

// Settle implements stage.Stage. The bucket that gave the tokens settles them.
func (a *Auto) Settle(now stage.Instant, receipt stage.Receipt, actual int64) {
	switch from := receipt.Rest.(type) {
	case fromFallback:
		if !a.is(asks) { // the bucket may be the grant's by now
			from.taken = false
			receipt.Rest = from
		}
		a.Stage.Settle(now, receipt, actual)
	case fromRemote:
		a.Stage.Settle(now, receipt, actual)
	default:
		a.Rate.Settle(now, receipt, actual)
	}
}

// Idle implements share.Part. Without its grant, which may never fill the bucket, the host asks.
func (a *Auto) Idle(now stage.Instant) bool {
	if a.is(asks) {
		return a.Stage.Idle(now)
	}
	return a.outbox.Empty() && a.tokens.Full(now, a.Terms().Rule) && a.Unused(now)
}

// Level implements stage.Stage.
func (a *Auto) Level(now stage.Instant) stage.Level {
	if a.is(asks) {
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

// RefillElsewhere implements share.RatePart. From then on, a asks again.
func (a *Auto) RefillElsewhere(ctx context.Context, now stage.Instant) error {
	err := a.Stage.RefillElsewhere(ctx, now)
	if s := a.asking.Load(); s != nil {
		s.last.Store(nil)
	}
	return err
}
