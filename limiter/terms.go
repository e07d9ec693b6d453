// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

// terms are what a rule says of one event, beside the limit, and who decides.
type terms struct {
	longest   time.Duration // that an event waits
	debt      time.Duration // that it may leave behind; 0: it may not
	costliest float64

	// Who decides: this host by its part, who is asked instead, or the fallback.
	rule                       *dynamicconfig.Rule
	algorithm, owner, fallback string
}

// noTerms are those of a share that has not got its own yet.
var noTerms = terms{longest: longestWait, costliest: math.Inf(1)}

// newTerms are those of a rule under one of its algorithms.
func newTerms(rule *dynamicconfig.Rule, algorithm string) *terms {
	t := noTerms
	t.rule, t.algorithm, t.owner, t.fallback = rule, algorithm, algorithm, rule.Fallback.String()
	if algorithm == Auto {
		t.algorithm, t.owner = "elastic", "exact"
	}
	if rule.InFlight {
		return &t
	}
	t.debt = max(rule.MaxDebt, 0)
	if rule.MaxWait != 0 {
		t.longest = max(rule.MaxWait, 0)
	}
	if rule.MaxCost > 0 || rule.MaxDebt > 0 {
		t.costliest = rule.Costliest()
	}
	return &t
}

// plain: there is nothing to say beside the limit.
func (t *terms) plain() bool {
	return t.longest == longestWait && t.debt == 0 && math.IsInf(t.costliest, 1)
}

// by is the algorithm or the fallback that decides.
func (s *share) by() string {
	t := s.terms.Load()
	if s.fallen.Load() {
		return t.fallback
	}
	return t.algorithm
}

// ruled is a share under terms. They are not the share's own, so that one
// without any decides without a look at them.
type ruled struct{ *share }

var (
	_ Stepper   = ruled{}
	_ Explainer = ruled{}
	_ Waiter    = ruled{}
)

// AllowAt implements Stepper.
func (r ruled) AllowAt(now Instant, n int) bool { return r.decide(now, n, 0).ok() }

// ReserveAt implements Stepper.
func (r ruled) ReserveAt(now Instant, n int, longest time.Duration) Reservation {
	held, _ := r.reserveAt(context.Background(), now, n, longest)
	return held
}

// DecideAt implements Explainer.
func (r ruled) DecideAt(_ context.Context, now Instant, n int, longest time.Duration) Decision {
	return r.decide(now, n, longest).decision(r.Level(now), r.by())
}

// WaitN implements Waiter.
func (r ruled) WaitN(ctx context.Context, n int) error { return waitFor(ctx, r, n) }

func (r ruled) judgeAt(_ context.Context, now Instant, n int, longest time.Duration) verdict {
	return r.decide(now, n, longest)
}

func (r ruled) reserveAt(_ context.Context, now Instant, n int, longest time.Duration) (Reservation, verdict) {
	return r.ticket(now, n, r.decide(now, n, longest))
}

func (r ruled) most() time.Duration { return r.terms.Load().longest }

// ticket is the Reservation of what v says.
func (s *share) ticket(now Instant, n int, v verdict) (Reservation, verdict) {
	if !v.ok() {
		return &ticket{}, v
	}
	return &ticket{from: s, n: n, limit: s.bucket.limit(), taken: now, act: now.Add(v.wait)}, v
}

// decide takes n tokens under the share's terms, and counts them.
func (s *share) decide(now Instant, n int, longest time.Duration) verdict {
	if n < 0 {
		return verdict{reason: InvalidCost}
	}
	v := s.weigh(now, n, longest)
	s.note(now, n, v.ok())
	return v
}

// weigh takes n tokens under the share's terms; n ≥ 0.
func (s *share) weigh(now Instant, n int, longest time.Duration) verdict {
	t, v := s.terms.Load(), verdict{reason: TooCostly}
	if float64(n) <= t.costliest {
		s.rejoin(now, n)
		v = s.bucket.decide(now, int64(n), min(longest, t.longest), t.debt)
		if v.ok() && s.pass.Load() != passAll && s.drops() {
			v = verdict{reason: Limited} // its tokens were of an unlimited bucket
		}
	}
	return v
}

// decide is reserve, or owe if there is a debt, with the reason.
func (b *bucket) decide(now Instant, n int64, longest, debt time.Duration) verdict {
	if debt > 0 {
		wait, retry, ok := b.owe(now, n, longest, debt)
		if ok {
			return verdict{wait: wait}
		}
		return verdict{reason: Limited, retry: known(retry)}
	}
	wait, ok := b.reserve(now, n, longest)
	switch {
	case ok:
		return verdict{wait: wait}
	case !b.holds(n) && b.holds(1): // else nothing is allowed, whatever it costs
		return verdict{reason: TooCostly}
	case longest < wait:
		wait -= max(longest, 0)
	}
	return verdict{reason: Limited, retry: known(wait)}
}

// known is d, or 0 if that is for ever.
func known(d time.Duration) time.Duration {
	if d >= longestWait {
		return 0
	}
	return d
}

// note counts n as allowed or rejected, and asks for more if little is left.
func (s *share) note(now Instant, n int, ok bool) {
	if largest := s.largest.Load(); int64(n) > largest {
		s.largest.CompareAndSwap(largest, int64(n)) // somebody else's may win
	}
	if ok {
		s.allowed.Add(int64(min(n, maxCost)))
	} else {
		s.reject(n)
	}
	if low := s.low.Load(); low == straggling || low != neverLow && s.bucket.tokens(now) < s.bucket.tokensOf(low) {
		s.runsLow(now)
	}
}

// reserver is a Stepper that says why.
type reserver interface {
	// judgeAt takes n tokens if they are there within longest.
	judgeAt(ctx context.Context, now Instant, n int, longest time.Duration) verdict
	// reserveAt is judgeAt whose tokens can be given back.
	reserveAt(ctx context.Context, now Instant, n int, longest time.Duration) (Reservation, verdict)
	// most is the longest that an event waits.
	most() time.Duration
}

// waitFor is WaitN for r.
func waitFor(ctx context.Context, r reserver, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	now, longest := Now(), longestWait
	if deadline, ok := ctx.Deadline(); ok {
		longest = At(deadline).Sub(now)
	}
	held, v := r.reserveAt(ctx, now, n, longest)
	if err := v.err(n, longest, r.most()); err != nil {
		return err
	}
	if wait := held.DelayFrom(Now().Time()); wait > 0 {
		if err := sleep(ctx, wait); err != nil {
			held.Cancel()
			return err
		}
	}
	return nil
}

// err is why a wait for n, until longest or most, is refused.
func (v verdict) err(n int, longest, most time.Duration) error {
	switch {
	case v.ok():
		return nil
	case v.reason == InvalidCost:
		return fmt.Errorf("limiter: wait for %d: a cost cannot be negative", n)
	case v.reason == TooCostly:
		return fmt.Errorf("limiter: wait for %d: it costs more than one event may: %w", n, ErrNever)
	case v.reason == Failed:
		return fmt.Errorf("limiter: wait for %d: %w", n, ErrFailed)
	case longest < most:
		return fmt.Errorf("limiter: wait for %d would exceed the context's deadline: %w", n, context.DeadlineExceeded)
	case most < longestWait || v.retry > 0:
		return fmt.Errorf("limiter: wait for %d: %w", n, ErrTooLong)
	}
	return fmt.Errorf("limiter: wait for %d: the limit is zero: %w", n, ErrNever)
}

// refused tells whether err is what err returns, and not what ctx ended with.
func refused(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() == nil || errors.Is(err, ErrNever) || errors.Is(err, ErrTooLong))
}
