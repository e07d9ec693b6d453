// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"

	"sync/atomic"
	"time"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// seconds is what an Auto knows of the events that its bucket refused and that
// its owner was asked for. The zero value has asked for none. Safe for concurrent
// use.
type seconds struct {
	budget    Budget
	notBefore atomic.Int64 // until this Instant, asking is known not to help
	asked     atomic.Int64 // events
	granted   atomic.Int64 // of these
	lent      atomic.Int64 // tokens beside them
	withheld  atomic.Int64 // events that the budget did not allow to ask for
}

const (
	// asksPerKey is how many times per second a host asks for one key beyond its
	// grant, in the long run, and asksAtOnce how many times at once. Keys with
	// fewer events need no more. For keys with more, grants do most of the work.
	asksPerKey = 7
	asksAtOnce = 14

	// longestNo is the longest time for which an owner's refusal stands: other
	// hosts give back tokens meanwhile, which the owner could not foresee.
	longestNo = time.Second

	// unanswered is how long a host does not ask again after the owner did not
	// answer, and busy, after the host itself had no room to ask.
	unanswered = time.Second
	busy       = 10 * time.Millisecond

	// hardly is how long a bucket takes that has next to no rate. Then the owner says
	// when there are tokens.
	hardly = time.Hour
)

// second asks the owner for q, which the bucket has refused with v. Tokens that
// no host holds are in the owner's pool: the owner pays q out of it, or says for
// how long it cannot. The bucket has counted q as rejected, as all that the owner
// pays counts: see counted.
//
// A caller whose ctx has ended cannot wait for an answer. If there is something to
// ask, it gets Canceled, and q is not counted.
func (a *Auto) second(ctx context.Context, q stage.Request, v stage.Verdict) (stage.Verdict, stage.Receipt) {
	if !a.worthAsking(q, v.Reason) {
		return v, stage.Receipt{}
	}
	if ctx.Err() != nil {
		return a.canceled(q)
	}
	if no := stage.Instant(a.seconds.notBefore.Load()); q.Now.Add(max(q.Longest, 0)) < no {
		return later(v, no.Sub(q.Now)), stage.Receipt{}
	}
	// The wait that a caller is promised limits how often callers that wait ask.
	if q.Longest <= 0 && !a.seconds.budget.Spend(q.Now, asksPerKey, asksAtOnce) || !a.host.MayAsk(q.Now) {
		a.seconds.withheld.Add(1)
		return later(v, time.Second/asksPerKey), stage.Receipt{}
	}
	a.seconds.asked.Add(1)
	more, asOf := a.room(q.Now)
	outcome, err := a.ask(ctx, q, more)
	if err == nil {
		a.setEstimate(q.Now, outcome.Left)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return a.canceled(q)
	case errors.Is(err, stage.ErrBusy):
		a.seconds.pause(q.Now, busy)
		return later(v, busy), stage.Receipt{}
	case err != nil:
		a.seconds.pause(q.Now, unanswered)
		a.mu.Lock()
		a.Rate.Alone(q.Now)
		a.mu.Unlock()
		a.host.RemoteFailed(q.Now, a.Rate, err, false)
		return later(v, unanswered), stage.Receipt{}
	case !outcome.OK:
		no := outcome.RetryAfter
		if no == 0 || no > longestNo {
			no = longestNo
		}
		a.seconds.pause(q.Now, jittered(q.Now, no))
		return later(v, max(outcome.RetryAfter, no)), stage.Receipt{}
	}
	a.seconds.granted.Add(1)
	a.borrow(q.Now, min(outcome.Lent, more), asOf)
	a.admitted.Add(min(q.N, bucket.MaxCost))
	return stage.Verdict{Answer: stage.Answer{By: stage.ByOwner}, Wait: outcome.Wait, Left: outcome.Left}, paid(q)
}

// room is how many tokens more the host may hold, as of a report; 0 while a report
// is under way: nobody knows whether the owner takes back with it what it lends now.
func (a *Auto) room(now stage.Instant) (tokens float64, asOf uint32) {
	asOf, settled := a.Common().Settled()
	if !settled {
		return 0, asOf
	}
	return max(a.Terms().Rule.Burst-max(a.Bucket().Tokens(now), 0), 0), asOf
}

// borrow puts tokens that the owner has lent into the bucket, unless a report was made
// since: then they flow back with that report, or with the next.
func (a *Auto) borrow(now stage.Instant, tokens float64, asOf uint32) {
	if tokens <= 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()

	if number, _ := a.Common().Settled(); number != asOf || a.asks.Load() {
		return
	}
	a.Rate.Borrow(now, tokens)
	if number, _ := a.Common().Settled(); number != asOf { // made meanwhile, with the tokens or without
		a.Bucket().Add(now, -tokens)
		return
	}
	a.seconds.lent.Add(int64(tokens))
}

// Allow is Take for one token now, without the reasons. The host has a grant.
func (a *Auto) Allow(now stage.Instant) bool {
	if a.Rate.Allow(now) {
		return true
	}
	q := stage.Request{Now: now, N: 1, Kind: stage.Final}
	v, _ := a.second(context.Background(), q, stage.Because(stage.Limited))
	return v.OK()
}

// worthAsking reports whether the owner may grant q, which was refused for reason.
func (a *Auto) worthAsking(q stage.Request, reason stage.Reason) bool {
	if reason != stage.Limited && reason != stage.TooCostly {
		return false
	}
	rule := a.Terms().Rule
	return !a.Fallen() && rule.Limit > 0 && float64(q.N) <= rule.Costliest()
}

// later is v, the bucket's refusal of an event that the owner may grant after d. If the
// bucket can never hold as much, or hardly fills, the caller hears when to try again.
func later(v stage.Verdict, d time.Duration) stage.Verdict {
	if v.Reason == stage.TooCostly || v.RetryAfter <= 0 || v.RetryAfter > hardly {
		v.Reason, v.RetryAfter = stage.Limited, d
	}
	return v
}

// canceled takes back that q was counted.
func (a *Auto) canceled(q stage.Request) (stage.Verdict, stage.Receipt) {
	a.Bucket().Record(-q.N, false)
	return stage.Because(stage.Canceled), stage.Receipt{}
}

// pause has the host not ask again for d.
func (s *seconds) pause(now stage.Instant, d time.Duration) { s.notBefore.Store(int64(now.Add(d))) }

// jittered is d and up to a quarter more, so that hosts that were refused together
// do not ask together.
func jittered(now stage.Instant, d time.Duration) time.Duration {
	return d + time.Duration(bucket.Mix(uint64(now))%uint64(d/4+1))
}

// Seconds counts the events that a host's own tokens did not cover.
type Seconds struct {
	// Asked is how many events the owner was asked for, and Granted how many of
	// them it granted. Withheld is how many events the host refused because it had
	// asked too often.
	Asked, Granted, Withheld int64
}

// Seconds is what was counted so far.
func (a *Auto) Seconds() Seconds {
	return Seconds{a.seconds.asked.Load(), a.seconds.granted.Load(), a.seconds.withheld.Load()}
}
