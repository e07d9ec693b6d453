// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// Remote is a bucket elsewhere, that is asked for each event: at the key's
// owner, or in Redis. It is safe for concurrent use, and its answer or its
// error is there within a short timeout of its own. A panic counts as an error.
type Remote interface {
	Take(ctx context.Context, t Take) (Taken, error)
}

// Take is what a Remote is asked for. Its Rule says all about the bucket, the
// max_debt too; its max_cost has been looked at.
type Take struct {
	Key  string
	Rule *dynamicconfig.Rule

	// N is the cost in tokens. If negative, so many are given back.
	N float64

	// Longest is the longest that the event may wait, at least 0. The rule's
	// max_wait has gone into it.
	Longest time.Duration

	// Charge: N has been used already and is taken in any case, into debt if
	// need be.
	Charge bool
}

// Taken is what a Remote says.
type Taken struct {
	// OK: N was taken, and the event may happen after Wait. Else nothing was.
	OK   bool
	Wait time.Duration

	// RetryAfter and Left are as in Decision.
	RetryAfter time.Duration
	Left       float64
}

// WithRemote has r asked for the keys under an algorithm. Nothing about them
// is reported to deciders, but under Auto. What r does not answer, this host's part under the
// rule's fallback decides; r is charged for what that let through when it
// answers again.
//
// So the methods of those keys' limiters take as long as r does.
func WithRemote(algorithm string, r Remote) Option {
	return func(g *Group) {
		if g.remotes == nil {
			g.remotes = make(map[string]Remote)
		}
		g.remotes[algorithm] = r
	}
}

// asked is a share whose bucket is elsewhere. Its own bucket is the fallback's.
type asked struct {
	*share
	remote Remote
	group  *Group

	// owed is what r is to be told of: used without it, or, if negative, to
	// be given back.
	owed    atomic.Int64
	telling atomic.Bool
	failing atomic.Bool // the last time

	// told says that deciders hear of the key as well. Then nothing of what is
	// asked for counts as allowed, which they would charge for again. Admitted
	// is what was, and unheard that no decider has answered yet.
	told     bool
	admitted atomic.Int64
	unheard  atomic.Bool

	left   atomic.Uint64 // float64 bits, as of leftAt; they need not match to the bit
	leftAt atomic.Int64
}

var (
	_ Stepper   = (*asked)(nil)
	_ Explainer = (*asked)(nil)
	_ Waiter    = (*asked)(nil)
	_ reserver  = (*asked)(nil)
	_ lender    = (*asked)(nil)
)

func newAsked(g *Group, s *share, r Remote) *asked {
	a := &asked{share: s, remote: r, group: g}
	a.left.Store(math.Float64bits(math.Inf(1))) // it has not been asked yet
	return a
}

// errNonsense: a Remote's answer is none.
var errNonsense = errors.New("the answer makes no sense")

// take asks the Remote for n, or else the fallback.
func (a *asked) take(ctx context.Context, now Instant, n int, longest time.Duration) (v verdict, left float64, by string) {
	t := a.terms.Load()
	switch {
	case n < 0:
		return verdict{reason: InvalidCost}, 0, t.owner
	case float64(n) > t.rule.Costliest():
		a.count(now, n, false)
		return verdict{reason: TooCostly}, 0, t.owner
	}
	if longest = max(min(longest, t.longest), 0); longest == longestWait {
		longest = maxAsk
	}
	taken, err := a.ask(ctx, Take{Key: a.key, Rule: t.rule, N: float64(n), Longest: longest})
	if err == nil && !taken.sane() {
		err = errNonsense
	}
	if err != nil && ctx.Err() != nil {
		a.count(now, n, false) // the caller has gone, and nobody else failed
		return verdict{reason: Limited}, 0, t.owner
	}
	if err != nil {
		v = a.insteadOf(now, n, longest, err)
		return v, 0, t.fallback
	}
	a.hear(now)
	a.left.Store(math.Float64bits(taken.Left))
	a.leftAt.Store(int64(now))
	a.count(now, n, taken.OK)
	if taken.OK {
		return verdict{wait: taken.Wait}, taken.Left, t.owner
	}
	return verdict{reason: Limited, retry: taken.RetryAfter}, taken.Left, t.owner
}

// ask asks the Remote. Somebody else's may panic, mostly in the background,
// where that would end the process.
func (a *asked) ask(ctx context.Context, t Take) (taken Taken, err error) {
	defer func() {
		if p := recover(); p != nil {
			taken, err = Taken{}, &rpc.PanicError{Value: p, Stack: debug.Stack()}
			a.group.log.Error("a remote bucket panicked", "key", t.Key, "panic", err)
		}
	}()
	return a.remote.Take(ctx, t)
}

// count counts n as allowed or rejected.
func (a *asked) count(now Instant, n int, ok bool) {
	if !a.told {
		a.note(now, n, ok)
		return
	}
	if ok {
		a.admitted.Add(int64(min(n, maxCost)))
	}
	a.want(now, n)
}

// want counts n as wanted, and not as used, for the deciders.
func (a *asked) want(now Instant, n int) {
	if largest := a.largest.Load(); int64(n) > largest {
		a.largest.CompareAndSwap(largest, int64(n)) // somebody else's may win
	}
	a.reject(n)
	if a.unheard.Load() || a.low.Load() == straggling {
		a.runsLow(now)
	}
}

// uncount takes back that n were allowed: they did not happen.
func (a *asked) uncount(n int) {
	n = min(n, maxCost)
	if !a.told {
		a.allowed.Add(-int64(n))
		return
	}
	a.admitted.Add(-int64(n))
	a.rejected.Add(-int64(n))
}

// maxAsk is the longest wait that a Remote is asked for: a year.
const maxAsk = 365 * 24 * time.Hour

// sane: everything is a number, and time goes forward.
func (t Taken) sane() bool {
	return t.Wait >= 0 && t.RetryAfter >= 0 && !math.IsNaN(t.Left) && !math.IsInf(t.Left, 0)
}

// insteadOf decides by the fallback, because of err.
func (a *asked) insteadOf(now Instant, n int, longest time.Duration, err error) verdict {
	a.group.metrics.remoteFailures.Inc(1)
	if a.failing.CompareAndSwap(false, true) {
		a.group.silent(now, a, err)
	}
	v := a.weigh(now, n, longest)
	a.count(now, n, v.ok())
	switch {
	case v.ok():
		a.owe(n)
	case a.terms.Load().rule.Fallback == dynamicconfig.FallbackClosed:
		v = verdict{reason: Failed}
	}
	return v
}

// hear notes that the Remote has answered.
func (a *asked) hear(now Instant) {
	if a.failing.Load() && a.failing.CompareAndSwap(true, false) {
		a.group.answers(now, a)
	}
	if a.owed.Load() != 0 {
		a.tell()
	}
}

// owe adds to what the Remote is to be told of.
func (a *asked) owe(n int) {
	for {
		old := a.owed.Load()
		sum := min(max(old+int64(min(max(n, -maxCost), maxCost)), -maxOwed), maxOwed)
		if a.owed.CompareAndSwap(old, sum) {
			return
		}
	}
}

// maxOwed keeps what is owed from overflowing.
const maxOwed = 1 << 52

// tell tells the Remote what is owed, in the background.
func (a *asked) tell() {
	if a.owed.Load() == 0 || !a.telling.CompareAndSwap(false, true) {
		return
	}
	told := a.group.background(func() {
		defer a.telling.Store(false)
		n := a.owed.Swap(0)
		if n == 0 {
			return
		}
		_, err := a.ask(context.Background(), Take{Key: a.key, Rule: a.terms.Load().rule, N: float64(n), Charge: n > 0})
		if err != nil {
			a.group.metrics.remoteFailures.Inc(1)
			a.owe(int(n)) // until it answers again
		}
	})
	if !told {
		a.telling.Store(false)
	}
}

// AllowAt implements Stepper.
func (a *asked) AllowAt(now Instant, n int) bool {
	return a.judgeAt(context.Background(), now, n, 0).ok()
}

// ReserveAt implements Stepper.
func (a *asked) ReserveAt(now Instant, n int, longest time.Duration) Reservation {
	r, _ := a.reserveAt(context.Background(), now, n, longest)
	return r
}

func (a *asked) judgeAt(ctx context.Context, now Instant, n int, longest time.Duration) verdict {
	v, _, _ := a.take(ctx, now, n, longest)
	return v
}

func (a *asked) reserveAt(ctx context.Context, now Instant, n int, longest time.Duration) (Reservation, verdict) {
	v, left, by := a.take(ctx, now, n, longest)
	r, _ := a.ticketOf(now, n, v, left, by)
	return r, v
}

// ticketOf is the Reservation of what v says, and the level of who said it.
func (a *asked) ticketOf(now Instant, n int, v verdict, left float64, by string) (*ticket, Level) {
	t := a.terms.Load()
	level := Level{Limit: t.rule.Limit, Burst: t.rule.Burst, Tokens: left}
	var from lender = a
	if by != t.owner {
		level, from = a.share.Level(now), fallen{a}
	}
	if !v.ok() {
		return &ticket{}, level
	}
	return &ticket{from: from, n: n, limit: level.Limit, taken: now, act: now.Add(v.wait)}, level
}

func (a *asked) most() time.Duration { return a.terms.Load().longest }

// WaitN implements Waiter.
func (a *asked) WaitN(ctx context.Context, n int) error { return waitFor(ctx, a, n) }

// DecideAt implements Explainer.
func (a *asked) DecideAt(ctx context.Context, now Instant, n int, longest time.Duration) Decision {
	d, _ := a.holdAt(ctx, now, n, longest)
	return d
}

// ChargeAt implements Stepper.
func (a *asked) ChargeAt(now Instant, n int) {
	n = min(max(n, 0), maxCost)
	if a.failing.Load() {
		a.bucket.add(now, -float64(n))
	}
	if a.told {
		a.count(now, n, true)
	} else {
		a.allowed.Add(int64(n))
	}
	a.owe(n)
	a.tell()
}

// CapAt implements Stepper. What is elsewhere is not this host's to lower.
func (a *asked) CapAt(now Instant, tokens float64) { a.share.CapAt(now, tokens) }

// Level implements Stepper. Nobody is asked: the tokens are those that were
// left as of the last answer, and what has come in since.
func (a *asked) Level(now Instant) Level {
	if a.failing.Load() {
		return a.share.Level(now)
	}
	rule := a.terms.Load().rule
	tokens := math.Float64frombits(a.left.Load())
	tokens += float64(rule.Limit) * max(now.Sub(Instant(a.leftAt.Load())), 0).Seconds()
	return Level{Limit: rule.Limit, Burst: rule.Burst, Tokens: min(tokens, rule.Burst)}
}

func (a *asked) debt(Instant) time.Duration { return 0 }

func (a *asked) refund(_ Instant, tokens float64, n int) {
	a.uncount(n)
	a.owe(-int(min(math.Ceil(tokens), maxCost)))
	a.tell()
}

// fallen is an asked that decided by its fallback.
type fallen struct{ *asked }

func (f fallen) debt(now Instant) time.Duration { return f.share.debt(now) }

func (f fallen) refund(now Instant, tokens float64, n int) {
	f.bucket.add(now, tokens)
	f.uncount(n)
	f.owe(-n) // it was to be told of
}

// silent says that a Remote does not answer for a key, and answers that it
// does again.
func (g *Group) silent(now Instant, a *asked, err error) {
	t := a.terms.Load()
	if g.remotesFailing.Add(1) == 1 {
		g.log.Warn("a bucket elsewhere does not answer; its keys fall back", "key", a.key, "algorithm", t.owner, "error", err)
	}
	g.tellOf(now, EventFallbackEntered, a.key, t.rule)
}

func (g *Group) answers(now Instant, a *asked) {
	t := a.terms.Load()
	if g.remotesFailing.Swap(0) > 0 {
		g.log.Info("a bucket elsewhere answers again", "key", a.key, "algorithm", t.owner)
	}
	g.tellOf(now, EventFallbackLeft, a.key, t.rule)
}
