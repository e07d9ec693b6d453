// SPDX-License-Identifier: Apache-2.0

// Package foreign makes a stage.Stage of a *rate.Limiter of golang.org/x/time/rate. It knows no
// keys, rules or reports. The *rate.Limiter guards its own state.
package foreign

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter/stage"
)

// Stage takes its tokens from a *rate.Limiter, which other code may go on using.
type Stage struct{ l *rate.Limiter }

var _ stage.Stage = Stage{}

// Of is the Stage of l.
func Of(l *rate.Limiter) Stage { return Stage{l} }

// taken is a Reservation, and the limit under which it was made.
type taken struct {
	*rate.Reservation

	limit rate.Limit
}

// Take implements stage.Stage.
func (f Stage) Take(_ context.Context, r stage.Request) (v stage.Verdict, receipt stage.Receipt) {
	t, n := r.Now.Time(), int(min(r.N, math.MaxInt))
	longest := min(r.Longest, stage.Forever-1)
	switch {
	case r.Kind >= stage.Charge:
		f.spend(t, r.N)
	case r.Kind == stage.Final && r.Longest <= 0:
		if !f.l.AllowN(t, n) {
			v = f.refuse(t, r)
		}
	case f.wait(t, r.N) > longest: // before a reservation takes tokens that others could use
		v = f.refuse(t, r)
	default:
		reserved := f.l.ReserveN(t, n)
		if v.Wait = reserved.DelayFrom(t); !reserved.OK() || v.Wait > longest {
			reserved.CancelAt(t)
			v = f.refuse(t, r)
		} else if r.Kind == stage.Take {
			receipt = stage.Receipt{N: r.N, Rest: &taken{reserved, f.l.Limit()}}
		}
	}
	if r.Kind == stage.Take {
		if v.Left = f.tokens(t); math.IsInf(v.Left, 1) {
			receipt = stage.Receipt{} // no tokens were taken, and l would give some back once it has a limit
		}
	}
	return v, receipt
}

// refuse says why r is refused.
func (f Stage) refuse(t time.Time, r stage.Request) stage.Verdict {
	if r.N > int64(f.l.Burst()) {
		return stage.Because(stage.TooCostly)
	}
	v := stage.Because(stage.Limited)
	if wait := f.wait(t, r.N); wait < stage.Forever {
		v.RetryAfter = max(wait-r.Longest, 0)
	}
	return v
}

// wait is how long it takes until there are n tokens, rounded as l rounds it.
func (f Stage) wait(t time.Time, n int64) time.Duration {
	short := float64(n) - f.tokens(t)
	if !(short > 0) { // NaN too, with which l allows everything
		return 0
	}
	ns := short / max(float64(f.l.Limit()), 0) * float64(time.Second)
	if !(ns < math.MaxInt64) {
		return stage.Forever
	}
	return time.Duration(ns)
}

// tokens is how many there are at t.
func (f Stage) tokens(t time.Time) float64 {
	if f.l.Limit() >= rate.Inf {
		return math.Inf(1)
	}
	return f.l.TokensAt(t)
}

// rounding is how much of a token may be an error of arithmetic.
const rounding = 1e-6

// ticks bounds the error of a Reservation's times, which are whole nanoseconds.
const ticks = 3 * time.Nanosecond

// spend takes n tokens that are spent already, into a debt of at most two bursts
// and a part of a token.
func (f Stage) spend(t time.Time, n int64) {
	f.charge(t, min(float64(n), f.tokens(t)+2*float64(f.l.Burst())))
}

// maxParts bounds the parts of one charge.
const maxParts = 1000

// charge takes n tokens, rounded up, in parts that l does not refuse.
func (f Stage) charge(t time.Time, n float64) {
	burst := f.l.Burst()
	for range maxParts {
		if !(n > 0) || burst <= 0 {
			return
		}
		f.l.ReserveN(t, int(min(math.Ceil(n), float64(burst))))
		n -= float64(burst)
	}
}

// Allow implements stage.Stage.
func (f Stage) Allow(ctx context.Context, now stage.Instant) stage.Reason {
	return stage.AllowByTake(ctx, now, f.Take)
}

// Settle implements stage.Stage.
func (f Stage) Settle(now stage.Instant, receipt stage.Receipt, actual int64) {
	reserved, ok := receipt.Rest.(*taken)
	switch {
	case !ok || actual == receipt.N || f.l.Burst() <= 0 && actual < receipt.N: // with no burst, charge cannot take back what is too much
	case actual > receipt.N:
		f.spend(now.Time(), actual-receipt.N)
	default:
		// CancelAt gives a Reservation back whole, less what others have reserved on top of it.
		// If an earlier one was cancelled, or the limit has changed, that may be more than it took.
		t, used := now.Time(), max(actual, 0)
		before, act := f.l.TokensAt(t), reserved.cancelAt(t)
		// Under a limit that is lower by now, CancelAt would take more tokens back than it lets fill in anew.
		if used > 0 && f.l.Limit() >= reserved.limit && reserved.DelayFrom(t) == 0 && reserved.fits(receipt.N, used, before, t.Sub(act)) {
			f.l.ReserveN(t, int(used)) // first: so CancelAt gives back receipt.N tokens, whatever others take meanwhile
		}
		reserved.CancelAt(act)
		restored := f.l.TokensAt(t) - before
		f.charge(t, restored-float64(receipt.N-used)-rounding-float64(f.l.Limit())*ticks.Seconds())
	}
}

// fits reports whether r, which has n tokens and whose time to act was since ago, is given back whole after used of
// the before tokens that there are have been reserved: that makes no debt, which CancelAt would subtract, and
// CancelAt gives nothing back once n tokens have filled in under r's limit before the newest Reservation.
func (r *taken) fits(n, used int64, before float64, since time.Duration) bool {
	return float64(used) <= before && 2*float64(r.limit)*since.Seconds() < float64(n)
}

// longAgo is longer than the time for which a Reservation is kept.
const longAgo = 100 * 365 * 24 * time.Hour

// cancelAt is t, or the time at which the holder of r may act if that is before t. A Reservation
// states that time only as a delay.
func (r *taken) cancelAt(t time.Time) time.Time {
	past := t.Add(-longAgo)
	return past.Add(min(r.DelayFrom(past), longAgo))
}

// Cap implements stage.Stage: a *rate.Limiter has no other way to lose tokens
// than to take them.
func (f Stage) Cap(now stage.Instant, tokens float64) {
	t := now.Time()
	f.charge(t, f.l.TokensAt(t)-tokens)
}

// Level implements stage.Stage.
func (f Stage) Level(now stage.Instant) stage.Level {
	return stage.Level{Limit: f.l.Limit(), Burst: float64(f.l.Burst()), Tokens: f.tokens(now.Time())}
}

// Open implements stage.Stage: a wait is as long as with a *rate.Limiter, whatever changes.
func (Stage) Open() (open bool, changed []<-chan struct{}) { return false, nil }
