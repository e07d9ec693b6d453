// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/elsewhere"
	"github.com/headgate/headgate/limiter/internal/forgiven"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Stage is a Rate whose bucket is elsewhere. The bucket that it has itself is
// the fallback's. Use New.
type Stage struct {
	sender
	tokens elsewhere.Estimate // of the remote
}

var _ share.RatePart = (*Stage)(nil)

// New returns the Stage of r that asks the Remote of l.
func New(r *share.Rate, l *Link) *Stage {
	s := new(Stage)
	s.init(r, l)
	return s
}

// Of is the Stage of a part whose bucket is elsewhere; nil if p is another part.
func Of(p share.Part) *Stage {
	switch s := p.(type) {
	case *Stage:
		return s
	case *Auto:
		return &s.Stage
	}
	return nil
}

// OwnUse is which part of what the remote bucket of s lacks this host has used, 0 to 1; below 0 before an answer.
func OwnUse(s *Stage) float64 { return s.tokens.Own() }

func (s *Stage) init(r *share.Rate, l *Link) {
	s.Rate, s.Link, s.own, s.Heard = r, l, new(share.AdmittedRemote), new(elsewhere.Heard)
	s.set(measured, r.Terms().Measured)
	s.tokens.Init()
	if before := l.host.backlog.Before(s); before != nil && before.outbox.Begin() {
		rule := r.Terms().Rule
		s.tokens.Set(stage.Now(), rule, rule.Burst-float64(s.outbox.TakeOver(&before.outbox)))
		before.outbox.End(nil)
		s.enqueue(0) // so that s is listed
	}
}

// The Rest of a Receipt says who gave the tokens.
type (
	fromRemote   struct{ *forgiven.Mark } // when they left a debt, else nil
	fromFallback struct {
		stage.Receipt      // of the Rate
		taken         bool // out of the fallback's bucket
	}
)

// maxAsk is the longest wait that a Remote is asked for.
const maxAsk = 365 * 24 * time.Hour

// maxExcess is how much longer than it was asked for a Remote's wait may be, because of rounding.
const maxExcess = time.Millisecond

// Take implements stage.Stage.
func (s *Stage) Take(ctx context.Context, q stage.Request) (v stage.Verdict, receipt stage.Receipt) {
	t := s.Terms()
	if q.Kind >= stage.Charge {
		return s.charge(q), receipt
	}
	switch {
	case float64(q.N) <= t.Rule.Costliest():
	case t.Rule.Limit <= 0 && t.Rule.Burst <= 0: // nothing is allowed, whatever it costs, as in a bucket.Bucket
		s.count(q.Now, q.N, false)
		return stage.Because(stage.Limited), receipt
	default:
		return stage.Because(stage.TooCostly), receipt // and not counted, as in a bucket.Bucket
	}
	mark := s.RemoteMark()
	outcome, err := s.ask(ctx, q, loan{})
	switch {
	case err != nil && ctx.Err() != nil: // the caller has gone, and the remote did not fail
		return stage.Because(stage.Canceled), receipt
	case err != nil:
		return s.takeFallback(q, err)
	}
	s.answers(q.Now)
	s.Flush(q.Now)
	s.tokens.Answered(q, t.Rule, outcome)
	if ctx.Err() != nil {
		if outcome.OK { // the caller did not wait for the answer
			s.ChargeLater(q.Now, -q.N)
		}
		return stage.Because(stage.Canceled), receipt
	}
	s.count(q.Now, q.N, outcome.OK)
	if v.Left = outcome.Left; s.is(owned) {
		v.By = stage.ByOwner
	}
	if !outcome.OK {
		v.Reason, v.RetryAfter = stage.Limited, outcome.RetryAfter
		return v, receipt
	}
	v.Wait = outcome.Wait
	return v, paid(q, outcome, mark)
}

// paid is the Receipt of q, which the remote has paid, after mark.
func paid(q stage.Request, o stage.Outcome, mark forgiven.Mark) stage.Receipt {
	switch {
	case q.Kind != stage.Take || q.N == 0:
		return stage.Receipt{}
	case o.Left < 0:
		return stage.Receipt{N: q.N, Rest: fromRemote{&mark}}
	}
	return stage.Receipt{N: q.N, Rest: fromRemote{}}
}

// SetTerms implements share.Part. What came into the remote bucket until now came in as the rule before says.
func (s *Stage) SetTerms(now stage.Instant, t *share.Terms) {
	before := s.Terms().Rule
	tokens := s.tokens.At(now, before)
	s.Rate.SetTerms(now, t)
	follows := forgiven.Follow(before.Limit, t.Rule, tokens)
	if follows != tokens {
		s.UpdateRemoteMark(func(m forgiven.Mark) forgiven.Mark { return m.After(tokens, follows) })
	}
	if (before.Limit != t.Rule.Limit || before.Burst != t.Rule.Burst) && s.tokens.Asked() {
		s.tokens.Change(now, before, t.Rule, func(tokens float64) float64 { return forgiven.Follow(before.Limit, t.Rule, tokens) })
	}
}

// ask asks the remote for q, and for a loan beside it.
func (s *Stage) ask(ctx context.Context, q stage.Request, l loan) (stage.Outcome, error) {
	op := stage.Operation{Key: s.Key(), Measured: s.is(measured), Rule: s.Terms().Rule, N: float64(q.N), Longest: min(max(q.Longest, 0), maxAsk), More: l.most, Wants: l.wants}
	do := s.do
	if s.outbox.HasBarrier() {
		do = s.askAfter
	}
	outcome, err := do(ctx, op)
	if err == nil && outcome.OK && outcome.Wait > op.Longest+maxExcess {
		s.ChargeLater(q.Now, -q.N) // the caller cannot wait as long
		err = stage.ErrNonsense
	}
	return outcome, err
}

// takeFallback decides by the fallback, because of err.
func (s *Stage) takeFallback(q stage.Request, err error) (v stage.Verdict, receipt stage.Receipt) {
	if s.failed(q.Now, err, true) {
		s.capFallback(q.Now)
	}
	v, receipt = s.Rate.Take(context.Background(), q)
	v.By = stage.ByFallback
	s.recount(q.Now, q.N, v.OK())
	switch {
	case v.OK():
		s.tokens.Charge(q.Now, s.Terms().Rule, float64(q.N))
		s.enqueue(q.N)
		if q.Kind == stage.Take && q.N > 0 {
			receipt = stage.Receipt{N: q.N, Rest: fromFallback{receipt, !math.IsInf(v.Left, 1)}}
		}
	case s.Terms().Rule.Fallback == dynamicconfig.FallbackClosed:
		v = stage.Verdict{Answer: stage.Answer{Reason: stage.Failed, By: stage.ByFallback}}
	}
	return v, receipt
}

// capFallback has the fallback's bucket have no more tokens than the remote, as far as this host knows. Where some answers
// are lost and the remote is empty, the fallback would otherwise pay for events that the remote would have refused, and
// the charges for them would leave nothing for hosts whose asks arrive.
func (s *Stage) capFallback(now stage.Instant) {
	if has := max(s.tokens.At(now, s.Terms().Rule), 0); has < s.Bucket().Pace().Burst() {
		s.Bucket().Cap(now, has)
	}
}

// charge takes tokens that are spent already, without waiting for the remote.
func (s *Stage) charge(q stage.Request) stage.Verdict {
	n, rule := min(s.Terms().Chargeable(q.N), bucket.MaxCost), s.Terms().Rule
	left := max(s.Level(q.Now).Tokens-float64(n), -rule.MostDebt())
	if s.failing.Holds() {
		s.Spend(q.Now, n)
	}
	if q.Kind != stage.Before {
		s.count(q.Now, n, true)
	}
	s.tokens.Charge(q.Now, rule, float64(n))
	if s.enqueue(n); q.Kind == stage.Before {
		s.setBarrier()
	}
	s.Flush(q.Now)
	return stage.Verdict{Left: left}
}

// Allow implements stage.Stage.
func (s *Stage) Allow(ctx context.Context, now stage.Instant) stage.Reason {
	return stage.AllowByTake(ctx, now, s.Take)
}

// Settle implements stage.Stage. It does not wait for the remote.
func (s *Stage) Settle(now stage.Instant, receipt stage.Receipt, actual int64) {
	actual = max(actual, 0)
	back := receipt.N - actual
	if receipt.N == 0 || back == 0 {
		return
	}
	if back < 0 {
		s.charge(stage.Request{Now: now, N: -back})
		return
	}
	switch from := receipt.Rest.(type) {
	case fromRemote:
		if from.Mark != nil {
			back = s.RemoteMark().Back(*from.Mark, back)
		}
	case fromFallback:
		if back = s.Back(from.Receipt, actual); from.taken {
			s.Bucket().Add(now, float64(back))
		}
	}
	s.Heard.Returned.Add(back)
	passOn(now, s, back)
	s.uncount(back, s.is(owned|gone))
	s.ChargeLater(now, -back)
}

// passOn tells the Stage that asks the remote in place of s, if s has left, that the remote gets n tokens back.
func passOn(now stage.Instant, s *Stage, n int64) {
	if !s.is(gone) {
		return
	}
	name := s.under
	if s.is(measured) {
		name = dynamicconfig.Measured(name)
	}
	if to := s.host.config.Asking(s.Key(), name); to != nil {
		rule := to.Terms().Rule
		to.tokens.Change(now, rule, rule, func(tokens float64) float64 { return tokens + float64(n) })
		if to.Heard != s.Heard { // the key was forgotten in between
			to.Heard.Returned.Add(n)
		}
	}
}

// ChargeLater charges the remote with n tokens in the background, or gives them back if
// n is negative. It counts nothing.
func (s *Stage) ChargeLater(now stage.Instant, n int64) {
	rule := s.Terms().Rule
	s.tokens.Change(now, rule, rule, func(tokens float64) float64 { return tokens - float64(n) })
	s.enqueue(n)
	s.Flush(now)
}

// enqueue adds n tokens to the outbox.
func (s *Stage) enqueue(n int64) {
	s.outbox.Add(n)
	if s.outbox.List() {
		s.host.backlog.Add(s)
	}
}

// TakeOver charges the remote with n tokens that this host used before s was asked. Asks wait until the
// remote has answered that charge, and those in the outbox. What callers give back of the n tokens goes
// back to the remote; the owner of a key under an Auto learns of that from the reports, which count less
// then. part is how much of what the remote lacks already this host has used, 0 to 1.
func (s *Stage) TakeOver(now stage.Instant, n int64, part float64) {
	if s.tokens.Own() < 0 {
		s.tokens.AssumeOwn(part)
	}
	if n > 0 {
		if !s.is(owned) {
			s.AddPrecharge(n, func(now stage.Instant, n int64) {
				s.Heard.Returned.Add(n)
				s.ChargeLater(now, -n)
			})
		}
		s.tokens.ChargeAbove(now, s.Terms().Rule, float64(n))
		s.enqueue(n)
	}
	if s.HasUnsent() {
		s.setBarrier()
		s.Flush(now)
	}
}

// Cap implements stage.Stage. It lowers the fallback's tokens, and the estimate
// that Level returns: a stage that follows before the remote was asked gets no more
// than the stage before s had.
func (s *Stage) Cap(now stage.Instant, tokens float64) {
	s.Rate.Cap(now, tokens)
	s.tokens.Cap(now, s.Terms().Rule, tokens)
}

// Level implements stage.Stage. It does not ask the remote, which may have no Level: see Estimate.
func (s *Stage) Level(now stage.Instant) stage.Level {
	if s.failing.Holds() {
		level := s.Rate.Level(now)
		level.Remote = true
		return level
	}
	return s.Elsewhere(now)
}

// Elsewhere is the level of the remote bucket, also while it is not asked.
func (s *Stage) Elsewhere(now stage.Instant) stage.Level {
	rule := s.Terms().Rule
	tokens, uncapped := s.tokens.WithLevel(now, rule, s.level.Of(now, s.Key()), s.outbox.Empty())
	return stage.Level{Limit: rule.Limit, Burst: rule.Burst, Tokens: tokens, Above: uncapped - tokens, Remote: true}
}

// Idle implements share.Part. A key whose remote bucket is not full is not idle: an
// algorithm that follows would begin with a full bucket. A debt to a remote that
// does not answer does not keep the key: the caller that forgets the key calls
// Leave.
func (s *Stage) Idle(now stage.Instant) bool {
	return (s.outbox.Empty() && s.tokens.Full(now, s.Terms().Rule) || s.failing.Holds()) && s.Rate.Idle(now)
}

// Leave says that no key decides by s any more. Its Hub goes on sending its charges for
// a while. Nothing that s is still asked for changes what is in force, which may be another
// algorithm's.
func (s *Stage) Leave() {
	s.LeaveRemote(s.admittedRemote())
	s.mu.Lock()
	s.set(gone, true)
	s.mu.Unlock()
	s.host.backlog.Left(s)
}

// InFallback implements share.Part.
func (s *Stage) InFallback() (since stage.Instant, ok bool) { return s.failing.At() }

// Asking implements share.Part.
func (s *Stage) Asking() bool { return true }

// RefillElsewhere implements share.RatePart. What is in the outbox is charged afterwards.
func (s *Stage) RefillElsewhere(ctx context.Context, now stage.Instant) error {
	rule := s.Terms().Rule
	n := min(math.Ceil(rule.Burst+rule.MostDebt()), float64(bucket.MaxCost))
	outcome, err := s.do(ctx, stage.Operation{Kind: stage.FillTokens, ID: rand.Uint64() | 1, Key: s.Key(), Measured: s.is(measured), Rule: rule, N: n})
	if err == nil {
		s.tokens.Set(now, rule, outcome.Left)
		s.RefillRemote()
	}
	return err
}
