// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
)

// Reason is why a Decision is what it is.
type Reason uint8

const (
	// Granted means that the tokens were taken.
	Granted Reason = iota
	// Soft means that it is over the limit, and let through because the rule is not
	// enforced in full. No tokens were taken.
	Soft
	// Limited means that there are too few tokens, and the wait for them, or the debt,
	// would be too long.
	Limited
	// TooCostly means that it costs more than one event may, or than this host's bucket
	// can ever hold.
	TooCostly
	// Unmatched means that no rule matches the key, and config denies such keys.
	Unmatched
	// TooManyKeys means that the key's rule has its max_keys on this host already.
	TooManyKeys
	// InvalidKey means that the key is empty or too long.
	InvalidKey
	// InvalidCost means that the cost is negative.
	InvalidCost
	// Failed means that who decides elsewhere did not answer, and that the
	// fallback is closed.
	Failed
	// InFlight means that the rule limits slots; use Acquire.
	InFlight
)

var reasonNames = []string{"granted", "soft", "limited", "too-costly", "unmatched", "too-many-keys", "invalid-key", "invalid-cost", "failed", "in-flight"}

// String is the reason in words, as in metrics.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", r)
}

// Decision is whether an event may happen, and why. The zero Decision is not
// one.
type Decision struct {
	// OK: it may happen, after Wait. The tokens were taken, unless Reason is
	// Soft. If not OK, nothing was taken.
	OK     bool
	Reason Reason
	Wait   time.Duration

	// RetryAfter is after how long the same event would be OK if nobody else
	// came; 0 if it is OK, if no wait would do, or if nobody knows.
	RetryAfter time.Duration

	// Limit (events/s), Burst and Left (tokens) are those of the bucket that
	// decided, afterwards: of this host's part, or of all of it if the bucket
	// is elsewhere. Left is negative in debt. They are infinite when nothing is
	// limited, and 0 when nobody knows.
	Limit       rate.Limit
	Burst, Left float64

	// By is the algorithm or the fallback that decided; empty when the key has
	// no limiter.
	By string
}

// Decide tells whether an event of cost n may happen, and why, and takes n
// tokens if so. longest is the longest that the caller would wait: at most the
// rule's max_wait counts; negative is the rule's alone, and 0 is what Allow
// does. ctx only matters where the decision is made elsewhere.
func (k *Keyed) Decide(ctx context.Context, n int, longest time.Duration) Decision {
	return k.DecideAt(ctx, Now(), n, longest)
}

// DecideAt implements Explainer.
func (k *Keyed) DecideAt(ctx context.Context, now Instant, n int, longest time.Duration) Decision {
	return Explain(ctx, k.step(now), now, n, longest)
}

// Explainer is a Stepper that says why it decides as it does.
type Explainer interface {
	// DecideAt is Keyed's Decide at now.
	DecideAt(ctx context.Context, now Instant, n int, longest time.Duration) Decision
}

// Explain has s decide. Of a Stepper that is no Explainer it tells what its
// Level does.
func Explain(ctx context.Context, s Stepper, now Instant, n int, longest time.Duration) Decision {
	if longest < 0 {
		longest = longestWait
	}
	if e, ok := s.(Explainer); ok {
		return e.DecideAt(ctx, now, n, longest)
	}
	d, _ := holdBySteps(s, now, n, longest)
	return d
}

// holdBySteps is holdBy for any Stepper.
func holdBySteps(s Stepper, now Instant, n int, longest time.Duration) (Decision, Reservation) {
	r := s.ReserveAt(now, n, longest)
	level := s.Level(now)
	d := level.decision()
	switch {
	case r.OK():
		d.OK, d.Reason, d.Wait = true, Granted, r.DelayFrom(now.Time())
	case level.Refused != nil:
		d.Reason = reasonOf(level.Refused)
	case n < 0:
		d.Reason = InvalidCost
	case float64(n) > level.Burst:
		d.Reason = TooCostly
	default:
		d.Reason = Limited
	}
	return d, r
}

func (l Level) decision() Decision { return Decision{Limit: l.Limit, Burst: l.Burst, Left: l.Tokens} }

// refusals are the errors that say that nothing is allowed.
var refusals = []struct {
	err    error
	reason Reason
}{
	{ErrUnmatched, Unmatched}, {ErrTooManyKeys, TooManyKeys}, {ErrInvalidKey, InvalidKey}, {ErrInFlight, InFlight}, {ErrNever, TooCostly},
}

// reasonOf is the reason that an error of this package stands for.
func reasonOf(err error) Reason {
	if err == nil {
		return Granted
	}
	for _, r := range refusals {
		if errors.Is(err, r.err) {
			return r.reason
		}
	}
	return Limited
}

// verdict is what a bucket says of one event.
type verdict struct {
	reason      Reason
	wait, retry time.Duration
}

func (v verdict) ok() bool { return v.reason <= Soft }

// decision is v as one of who decided, which is at level now.
func (v verdict) decision(level Level, by string) Decision {
	d := level.decision()
	d.OK, d.Reason, d.By = v.ok(), v.reason, by
	if d.OK {
		d.Wait = v.wait
	} else {
		d.RetryAfter = v.retry
	}
	return d
}

// DecideAt implements Explainer.
func (s *share) DecideAt(_ context.Context, now Instant, n int, longest time.Duration) Decision {
	return s.decide(now, n, longest).decision(s.Level(now), s.by())
}

// DecideAt implements Explainer.
func (unlimited) DecideAt(_ context.Context, now Instant, n int, _ time.Duration) Decision {
	d := unlimited{}.Level(now).decision()
	if d.OK = n >= 0; !d.OK {
		d.Reason = InvalidCost
	}
	return d
}

// DecideAt implements Explainer.
func (r refusal) DecideAt(_ context.Context, now Instant, n int, _ time.Duration) Decision {
	r.tell(now, n)
	return Decision{Reason: reasonOf(r.err)}
}

// DecideAt implements Explainer: nothing would say when the event ends.
func (f inFlight) DecideAt(_ context.Context, now Instant, _ int, _ time.Duration) Decision {
	d := f.Level(now).decision()
	d.Reason, d.By = InFlight, f.by()
	return d
}
