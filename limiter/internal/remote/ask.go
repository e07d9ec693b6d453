// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/budget"
	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// asker is a Stage that may have a grant. It asks the key's owner for what the grant does not
// cover, and for loans. Its Auto decides when.
//
// A host may have 100,000 of them, which are not in the processor's caches when they are used. An
// asker has two cache lines. An event that a grant covers needs the first, which has the Rate and the
// switches. The second has what is still to be sent to the owner, and what that has.
type asker struct {
	asking atomic.Pointer[asking] // nil before the first event that its grant does not cover
	Stage
}

// InFallback implements share.Part.
func (a *asker) InFallback() (since stage.Instant, ok bool) {
	if since, ok = a.Rate.InFallback(); ok || !a.is(asks) {
		return since, ok
	}
	return a.failing.At()
}

// asking is what an asker knows of the events that its bucket refused and that
// its owner was asked for. Most keys have a grant that covers their events, and no asking.
// The zero value has asked for none. Safe for concurrent use, but for reported.
type asking struct {
	budget   budget.Budget
	underway atomic.Int32                      // asks for events that have no answer yet
	borrows  atomic.Bool                       // an ask for more than its event is under way
	missed   atomic.Int32                      // asks in a row, one after another, that the owner did not answer
	last     atomic.Pointer[elsewhere.Refusal] // nil before the first
	asked    atomic.Int64                      // events, and asks ahead
	granted  atomic.Int64                      // of these
	lent     atomic.Int64                      // tokens beside the events
	withheld atomic.Int64                      // events that the budget did not allow to ask for
	costs    elsewhere.Costs                   // of events that were asked for
	reported share.Asked                       // by TakeAdmitted

	overdrawn   atomic.Int64  // by payAlone; the owner's latest answer does not show it
	overdrawnAt atomic.Uint32 // the number of the newest report at that time
}

// started is a's asking, from now on.
func (a *asker) started() *asking {
	if s := a.asking.Load(); s != nil {
		return s
	}
	a.asking.CompareAndSwap(nil, new(asking))
	return a.asking.Load()
}

// lastRefusal is the last refusal; nil before the first.
func (a *asker) lastRefusal() *elsewhere.Refusal {
	if s := a.asking.Load(); s != nil {
		return s.last.Load()
	}
	return nil
}

const (
	// asksPerKey is how many times per second a host asks for one key beyond its
	// grant, in the long run, and asksAtOnce how many times at once: a burst of some
	// seconds may use up what was not asked for before. Keys with fewer events need no
	// more. For keys with more, grants do most of the work.
	asksPerKey = 7
	asksAtOnce = 8 * asksPerKey

	// Some asks take a part of one from the budget, so that a batch of events may ask several times in less
	// time than that needs to fill up. sharedAsks join a call for which another ask for their key waits.
	// cheapAsks are the first of such a call, bring a loan of muchLent events' worth, or are of a host that
	// wants fewer than few events/s, which is lent nothing. So many of either count as one.
	sharedAsks = 64
	cheapAsks  = 8
	muchLent   = 20
	few        = 15

	// If the owner does not answer misses asks in a row, the host does not ask it again for silent, and twice as
	// long after each ask more, at most longest. One lost message is not enough for that: after each ask
	// before, the host does not ask for busy. The host also waits for busy if it had no room to ask.
	silent  = 100 * time.Millisecond
	longest = time.Second
	misses  = 3
	busy    = 10 * time.Millisecond

	// roundTrips is how many round trips to an owner fit in ask_timeout. An event
	// that can wait, and would wait here for longer than one, is asked for first.
	roundTrips = 4
)

// timed is the key of the value that Timed has.
type timed struct{}

// Timed is the context of a decision as of a time that the caller states. If that
// time is not about now, an Auto with a grant does not ask: the owner decides as of its
// own clock.
var Timed = context.WithValue(context.Background(), timed{}, true)

// askOwner asks the owner for q, which the bucket has refused with v. Tokens that
// no host holds are in the owner's pool: the owner pays q out of it, or says for
// how long it cannot. The bucket has counted q as rejected, as all that the owner
// pays counts: see counted.
//
// A caller whose ctx has ended cannot wait for an answer. If there is something to
// ask, it gets Canceled, and q is not counted.
func (a *asker) askOwner(ctx context.Context, q stage.Request, v stage.Verdict) (stage.Verdict, stage.Receipt) {
	if !a.mayPay(q, v.Reason) || a.untimely(ctx, q.Now) {
		return v, stage.Receipt{}
	}
	v.Reason = stage.Limited // the cost is not too high for the owner
	if retry, stands := a.lastRefusal().Stands(q); stands {
		v.RetryAfter = elsewhere.Sooner(v.RetryAfter, retry.Sub(q.Now))
		return v, stage.Receipt{}
	}
	to := a.started()
	as, underway := int64(1), to.underway.Load() // so many count as one
	if wants, unit := a.Demand(q.Now); underway > 1 {
		as = sharedAsks
	} else if underway > 0 || wants < few*unit {
		as = cheapAsks
	}
	perSecond, atOnce := as*asksPerKey, as*asksAtOnce
	if ctx.Err() != nil && to.budget.Wait(q.Now, perSecond, atOnce) == 0 {
		return a.canceled(q)
	}
	// The waits that callers are promised limit how often callers that wait ask.
	if q.Longest <= 0 && !to.budget.Spend(q.Now, perSecond, atOnce) || !a.host.mayAsk(q.Now) {
		to.withheld.Add(1)
		v.RetryAfter = elsewhere.Sooner(v.RetryAfter, max(to.budget.Wait(q.Now, perSecond, atOnce), busy))
		return v, stage.Receipt{}
	}
	to.asked.Add(1)
	to.underway.Add(1)
	defer to.underway.Add(-1)
	mark := a.RemoteMark()
	l := a.room(q.Now, 0)
	l.cheap = as > 1 || q.Longest > 0
	if l.most > 0 {
		defer to.borrows.Store(false)
	}
	if usual := to.costs.Usual(q.N); float64(q.N) < usual && l.wants < few*usual {
		l.most = 0 // by the cost of q alone, the owner would take the host for one with many events
	}
	missed := to.missed.Load()
	report, _ := a.Common().Settled()
	outcome, err := a.ask(ctx, q, l.granted())
	if err == nil {
		a.answered(q, outcome)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return a.canceled(q)
	case err != nil:
		v.RetryAfter = a.unanswered(q.Now, missed, err).RetryAfter(q.Now, v.RetryAfter)
		if now, _ := a.Common().Settled(); now == report && missed < misses && !errors.Is(err, stage.ErrBusy) && a.payAlone(q) {
			return share.Overdraw(a.Rate, q)
		}
		return v, stage.Receipt{}
	case ctx.Err() != nil:
		if outcome.OK {
			a.ChargeLater(q.Now, -q.N)
		}
		a.borrow(q.Now, l, outcome.Lent)
		return a.canceled(q)
	case !outcome.OK:
		last := elsewhere.Refuse(q, outcome.RetryAfter, to.last.Load())
		to.last.Store(last)
		v.RetryAfter = last.RetryAfter(q.Now, v.RetryAfter)
		return v, stage.Receipt{}
	}
	to.granted.Add(1)
	a.borrow(q.Now, l, outcome.Lent)
	a.admittedRemote().Admit(min(q.N, bucket.MaxCost))
	return stage.Verdict{Answer: stage.Answer{By: stage.ByOwner}, Wait: outcome.Wait, Left: outcome.Left}, paid(q, outcome, mark)
}

// askBeforeWait is askOwner for q that may wait, which the bucket has refused with v
// for now, which is soon. The owner may pay q sooner than the bucket. If it does not,
// the bucket decides. Other callers may have taken tokens from it meanwhile, so q
// holds none while the owner is asked.
func (a *asker) askBeforeWait(ctx context.Context, q, soon stage.Request, v stage.Verdict) (stage.Verdict, stage.Receipt) {
	if v.RetryAfter > 0 {
		soon.Longest = min(q.Longest, soon.Longest+v.RetryAfter) // as long as the bucket would take
	} else {
		soon.Longest = q.Longest
	}
	said, receipt := a.askOwner(ctx, soon, v)
	if said.OK() || said.Reason == stage.Canceled {
		return said, receipt
	}
	a.Bucket().Record(-q.N, false)
	if a.is(asks) { // the grant has ended meanwhile
		return a.Take(ctx, q)
	}
	if v, receipt = a.Rate.Take(ctx, q); !v.OK() {
		v.Reason, v.RetryAfter = said.Reason, elsewhere.Sooner(v.RetryAfter, said.RetryAfter)
	}
	return v, receipt
}

// answered notes the owner's answer to q.
func (a *asker) answered(q stage.Request, o stage.Outcome) {
	a.tokens.Answered(q, a.Terms().Rule, o)
	s := a.started()
	if report, known := a.Common().Settled(); s.overdrawn.Load() > 0 && known && report != s.overdrawnAt.Load() {
		s.overdrawn.Store(0)
	}
	if s.missed.Load() > 0 && s.missed.Swap(0) > 0 {
		a.host.remoteAnswers(a.Rate)
	}
}

// unanswered notes that the owner did not answer an ask, before which so many were missed, and has
// the host not ask again for a while. Asks that were under way together are one.
func (a *asker) unanswered(now stage.Instant, before int32, err error) *elsewhere.Refusal {
	to, pause := a.started(), busy
	if !errors.Is(err, stage.ErrBusy) {
		a.host.remoteFailed(a.Rate, err, to.missed.CompareAndSwap(before, before+1) && before == 0)
		if more := to.missed.Load() - misses; more >= 0 {
			a.fillAlone(now)
			pause = min(silent<<min(more, 8), longest) + a.Terms().Rule.AskTimeout
		}
	}
	last := elsewhere.Pause(now, pause)
	to.last.Store(last)
	return last
}

// payAlone reports whether the host pays q, for which the owner did not answer: its fair part of what the owner had
// when that last answered is enough for q, and for what it has paid alone and the owner did not know by then. Others
// may use what has come in since. No report has said yet that q was rejected.
func (a *asker) payAlone(q stage.Request) bool {
	a.mu.Lock() // asks that were under way together end together
	defer a.mu.Unlock()

	to, rule := a.started(), a.Terms().Rule
	limit := float64(rule.Limit)
	has := a.tokens.NotLent(q.Now, rule, limit) * min(a.UsedLately(), limit)
	if rule.Fallback == dynamicconfig.FallbackClosed || !((float64(to.overdrawn.Load())+float64(q.N))*limit < has) {
		return false
	}
	report, _ := a.Common().Settled()
	to.overdrawnAt.Store(report)
	to.overdrawn.Add(q.N)
	a.Bucket().Record(-q.N, false) // Overdraw counts it
	return true
}

// fillAlone has the bucket fill faster while the owner does not answer.
func (a *asker) fillAlone(now stage.Instant) {
	a.mu.Lock()
	defer a.mu.Unlock()

	if !a.is(gone) {
		a.Alone(now)
	}
}

// untimely reports whether the owner cannot be asked because the caller states a time
// that is not about now.
func (a *asker) untimely(ctx context.Context, now stage.Instant) bool {
	return ctx.Value(timed{}) != nil && stage.Now().Sub(now).Abs() > a.Terms().Rule.AskTimeout
}

// mayPay reports whether the owner may pay q, which was refused for reason, now or
// later.
func (a *asker) mayPay(q stage.Request, reason stage.Reason) bool {
	_, inFallback := a.InFallback()
	return (reason == stage.Limited || reason == stage.TooCostly) && !inFallback && float64(q.N) <= a.Terms().Rule.Costliest()
}

// Asked is what was asked so far. Safe for concurrent use.
func (a *asker) Asked() share.Asked {
	s := a.asking.Load()
	if s == nil {
		return share.Asked{}
	}
	return share.Asked{Asks: s.asked.Load(), Granted: s.granted.Load(), Withheld: s.withheld.Load(), Lent: s.lent.Load()}
}

// Pause is after how long the owner may have a token for an event that costs 1 and cannot wait; 0 if
// asking for it at now may help. Safe for concurrent use.
func (a *asker) Pause(now stage.Instant) time.Duration {
	if retry, stands := a.lastRefusal().Stands(stage.Request{Now: now, N: 1}); stands {
		return retry.Sub(now)
	}
	return 0
}
