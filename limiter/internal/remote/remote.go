// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// Host is what a Stage needs of the Group that it is in. Its methods are safe
// for concurrent use and do not block.
type Host interface {
	// Background runs f, or returns false if too much is under way.
	Background(f func()) bool

	// RemoteFailed counts a call that brought no answer. first says that the
	// one before was answered.
	RemoteFailed(now stage.Instant, r *share.Rate, err error, first bool)

	// RemoteAnswers says that the remote answers again for a key.
	RemoteAnswers(now stage.Instant, r *share.Rate)

	// RemotePanicked says that somebody's Remote has a defect.
	RemotePanicked(key string, err error)

	// RemoteOwes says that s, which has left its key, owes something.
	RemoteOwes(now stage.Instant, s *Stage)

	// Interval is the update interval.
	Interval() time.Duration
}

// Stage is a Rate whose bucket is elsewhere. The bucket that it has itself is
// the fallback's. Use New.
type Stage struct {
	*share.Rate
	algorithm string // under which remote is asked
	remote    stage.Remote
	host      Host

	owed    owed
	retryAt atomic.Int64 // the earliest Instant at which a failed operation is sent again
	failing atomic.Bool  // the last call was not answered
	gone    atomic.Bool  // see Leave

	// owned says that the key's owner gets reports as well. The owner charges
	// what a report says was allowed, and it has charged already what it
	// decided itself. So that is counted as rejected, and in admitted. unheard
	// says that no owner has answered a report yet.
	owned    bool
	admitted atomic.Int64
	taken    int64 // of admitted, by TakeAdmitted
	unheard  atomic.Bool

	left   atomic.Uint64 // float64 bits, as of leftAt; a small mismatch of the two only blurs Level
	leftAt atomic.Int64
}

var (
	_ stage.Stage    = (*Stage)(nil)
	_ share.RatePart = (*Stage)(nil)
)

// New returns the Stage of r that asks remote.
func New(r *share.Rate, remote stage.Remote, host Host) *Stage {
	s := new(Stage)
	s.init(r, remote, host)
	return s
}

func (s *Stage) init(r *share.Rate, remote stage.Remote, host Host) {
	s.Rate, s.algorithm, s.remote, s.host = r, r.Terms().Algorithm, remote, host
	s.left.Store(math.Float64bits(math.Inf(1))) // it has not been asked yet
	s.retryAt.Store(math.MinInt64)
}

// Asks reports whether s asks the Remote of algorithm.
func (s *Stage) Asks(algorithm string) bool { return s.algorithm == algorithm }

// The Rest of a Receipt says who gave the tokens.
type (
	fromRemote   struct{}
	fromFallback struct{ taken bool } // taken: out of the fallback's bucket
)

// maxAsk is the longest wait that a Remote is asked for.
const maxAsk = 365 * 24 * time.Hour

// Take implements stage.Stage.
func (s *Stage) Take(ctx context.Context, q stage.Request) (v stage.Verdict, receipt stage.Receipt) {
	t := s.Terms()
	if q.Kind == stage.Charge {
		return s.charge(q), receipt
	}
	if float64(q.N) > t.Rule.Costliest() {
		s.count(q.Now, q.N, false)
		return stage.Because(stage.TooCostly), receipt
	}
	op := stage.Operation{Key: s.Key(), Rule: t.Rule, N: float64(q.N), Longest: min(max(q.Longest, 0), maxAsk)}
	outcome, err := s.do(ctx, op)
	switch {
	case err != nil && ctx.Err() != nil: // the caller has gone, and the remote did not fail
		s.count(q.Now, q.N, false)
		return stage.Because(stage.Canceled), receipt
	case err != nil:
		return s.insteadOf(q, err)
	}
	s.answered(q.Now)
	s.left.Store(math.Float64bits(outcome.Left))
	s.leftAt.Store(int64(q.Now))
	s.count(q.Now, q.N, outcome.OK)
	v.By, v.Left = s.source(), outcome.Left
	if !outcome.OK {
		v.Reason, v.RetryAfter = stage.Limited, outcome.RetryAfter
		return v, receipt
	}
	if v.Wait = outcome.Wait; q.Kind == stage.Take && q.N > 0 {
		receipt = stage.Receipt{N: q.N, Rest: fromRemote{}}
	}
	return v, receipt
}

// source says what decides when the remote answers.
func (s *Stage) source() stage.Source {
	if s.owned {
		return stage.ByOwner
	}
	return stage.ByAlgorithm
}

// do asks the remote. Somebody else's may panic, mostly in the background,
// where that would end the process.
func (s *Stage) do(ctx context.Context, op stage.Operation) (o stage.Outcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			o, err = stage.Outcome{}, &rpc.PanicError{Value: p, Stack: debug.Stack()}
			s.host.RemotePanicked(op.Key, err)
		}
	}()
	if o, err = s.remote.Do(ctx, op); err == nil && !o.Valid() {
		o, err = stage.Outcome{}, stage.ErrNonsense
	}
	return o, err
}

// insteadOf decides by the fallback, because of err.
func (s *Stage) insteadOf(q stage.Request, err error) (v stage.Verdict, receipt stage.Receipt) {
	t := s.Terms()
	busy := errors.Is(err, stage.ErrBusy) // here; the remote may be well
	s.host.RemoteFailed(q.Now, s.Rate, err, !busy && s.failing.CompareAndSwap(false, true))
	s.retryAt.Store(int64(q.Now.Add(retryEvery)))
	v, receipt = s.Rate.Take(context.Background(), q)
	v.By = stage.ByFallback
	if s.owned {
		s.disown(q.Now, q.N, v.OK())
	}
	switch {
	case v.OK():
		s.owed.add(q.N)
		s.tellGone(q.Now)
		if q.Kind == stage.Take && q.N > 0 {
			receipt = stage.Receipt{N: q.N, Rest: fromFallback{taken: !math.IsInf(v.Left, 1)}}
		}
	case t.Rule.Fallback == dynamicconfig.FallbackClosed:
		v = stage.Verdict{Answer: stage.Answer{Reason: stage.Failed, By: stage.ByFallback}}
	}
	return v, receipt
}

// answered notes that the remote has answered.
func (s *Stage) answered(now stage.Instant) {
	s.recover(now)
	s.Flush(now)
}

// recover notes that s does not fail any more.
func (s *Stage) recover(now stage.Instant) {
	if s.failing.Load() && s.failing.CompareAndSwap(true, false) {
		s.host.RemoteAnswers(now, s.Rate)
	}
}

// count counts n as allowed or rejected. For a key whose owner gets reports, n
// counts as wanted and not as used.
func (s *Stage) count(now stage.Instant, n int64, ok bool) {
	if s.owned {
		if ok {
			s.admitted.Add(min(n, bucket.MaxCost))
		}
		ok = false
	}
	s.Bucket().CountOnly(n, ok)
	if s.owned {
		s.RanLowIf(now, s.unheard.Load())
	}
}

// disown moves n, which the fallback's bucket counted as allowed, to admitted.
func (s *Stage) disown(now stage.Instant, n int64, ok bool) {
	if ok {
		s.Bucket().Uncount(n, true)
		s.admitted.Add(min(n, bucket.MaxCost))
		s.Bucket().CountOnly(n, false)
	}
	s.RanLowIf(now, s.unheard.Load())
}

// uncount takes back that n were allowed: they did not happen.
func (s *Stage) uncount(n int64) {
	if s.owned {
		s.admitted.Add(-min(n, bucket.MaxCost))
		s.Bucket().Uncount(n, false)
		return
	}
	s.Uncount(n)
}

// charge takes tokens that are spent already. The remote hears of it in the
// background.
func (s *Stage) charge(q stage.Request) stage.Verdict {
	if s.failing.Load() {
		s.Bucket().Add(q.Now, -float64(q.N))
	}
	s.count(q.Now, q.N, true)
	s.owed.add(q.N)
	s.Flush(q.Now)
	s.tellGone(q.Now)
	level := s.Level(q.Now)
	return stage.Verdict{Left: level.Tokens - float64(q.N)}
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
	if by, ok := receipt.Rest.(fromFallback); ok && by.taken {
		s.Bucket().Add(now, float64(back))
	}
	s.uncount(back)
	s.owed.add(-back)
	s.Flush(now)
	s.tellGone(now)
}

// Level implements stage.Stage. Nobody is asked: the tokens are those that were
// left as of the last answer, and what has come in since.
func (s *Stage) Level(now stage.Instant) stage.Level {
	if s.failing.Load() {
		level := s.Rate.Level(now)
		level.Remote = true
		return level
	}
	rule := s.Terms().Rule
	tokens := math.Float64frombits(s.left.Load())
	tokens += float64(rule.Limit) * max(now.Sub(stage.Instant(s.leftAt.Load())), 0).Seconds()
	return stage.Level{Limit: rule.Limit, Burst: rule.Burst, Tokens: min(tokens, rule.Burst), Remote: true}
}

// Idle implements share.Part. What is owed to a remote that does not answer
// does not keep the key: whoever forgets it looks after what it Owes.
func (s *Stage) Idle(now stage.Instant) bool {
	return (s.owed.none() || s.failing.Load()) && s.Rate.Idle(now)
}

// Leave says that no key decides by s any more, and that its Host sends what it
// owes. What late callers settle is told to the Host.
func (s *Stage) Leave(now stage.Instant) {
	s.gone.Store(true)
	s.tellGone(now)
}

func (s *Stage) tellGone(now stage.Instant) {
	if s.gone.Load() && s.Owes() {
		s.host.RemoteOwes(now, s)
	}
}

// Owes reports whether the remote has not heard of everything yet. Safe for
// concurrent use.
func (s *Stage) Owes() bool { return !s.owed.none() }

// Fallen implements share.Part.
func (s *Stage) Fallen() bool { return s.failing.Load() }

// Retire implements share.Part.
func (s *Stage) Retire() {
	s.Rate.Retire()
	s.Flush(stage.Now())
}

// Admitted implements share.Part.
func (s *Stage) Admitted() int64 { return s.admitted.Load() }

// TakeAdmitted implements share.Part.
func (s *Stage) TakeAdmitted() (n int64) {
	admitted := s.admitted.Load()
	n, s.taken = admitted-s.taken, admitted
	return n
}

// Asking reports whether each event is asked for now. Safe for concurrent use.
func (s *Stage) Asking() bool { return true }

// retryEvery is how often what is owed is sent again to a remote that is not
// asked for anything else.
const retryEvery = 10 * time.Second

// FlushLater is Flush, unless that failed lately.
func (s *Stage) FlushLater(now stage.Instant) {
	if int64(now) >= s.retryAt.Load() {
		s.Flush(now)
	}
}

// Flush sends what is owed in the background.
func (s *Stage) Flush(now stage.Instant) {
	if s.owed.none() || !s.owed.begin() {
		return
	}
	sends := s.host.Background(func() {
		failed := false
		defer func() {
			if s.owed.end(); !failed {
				s.Flush(now) // what was added when there seemed to be nothing more
			}
		}()
		for op := s.owed.next(s.Key(), s.Terms().Rule); op != nil; op = s.owed.next(s.Key(), s.Terms().Rule) {
			if _, err := s.do(context.Background(), *op); err != nil && !errors.Is(err, stage.ErrNonsense) {
				s.host.RemoteFailed(now, s.Rate, err, false)
				s.retryAt.Store(int64(now.Add(retryEvery)))
				failed = true
				return
			}
			s.owed.done()
			s.recover(now)
		}
	})
	if !sends {
		s.owed.end()
	}
}
