// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/keys"
	"github.com/headgate/headgate/limiter/stage"
)

// decide decides one request. Every way to take tokens comes through here, but for Allow where the bucket alone
// decides. longest below 0 is as long as the rule allows. from is what the receipt is settled with.
func decide(ctx context.Context, k *keys.Key, now stage.Instant, n int64, longest time.Duration, kind stage.Kind) (v stage.Verdict, receipt stage.Receipt, from *keys.State) {
	// The rule that matches, or that none does.
	st := k.Current(now)
	if st.Stage == nil { // slots, too many keys, or no rule
		if v.Reason = st.Reason; n >= 0 && st.Terms().LetsPass(v.Reason) {
			v.Reason = stage.Soft // see below
		}
		k.Count(now, st, n, v, false)
		return v, receipt, nil
	}
	// The rule's terms.
	longest, reason := st.Terms().Apply(n, longest)
	if reason == stage.Granted {
		// The stage.
		from = st
		v, receipt = st.Stage.Take(ctx, stage.Request{Now: now, N: n, Longest: longest, Kind: kind})
	} else {
		v.Reason = reason
	}
	counted := from != nil && counts(st, n, v.Reason) // by the stage
	if v.Reason > stage.Bypassed && st.Terms().LetsPass(v.Reason) {
		// A rule that is not enforced in full lets some refused events pass.
		v.Reason, v.Wait, v.RetryAfter = stage.Soft, 0, 0
	}
	// The metrics, the listeners and the trace.
	if (v.Reason != stage.Granted || v.Wait > 0 || k.Watched()) && !stage.Undecided(ctx, v.Reason) {
		k.Count(now, st, n, v, counted)
	}
	return v, receipt, from
}

// allow decides about one token, now and for good. It is decide without the steps that do
// nothing where a rule has no terms and no listener or trace is set.
func allow(ctx context.Context, k *keys.Key, now stage.Instant) stage.Reason {
	st := k.Bare()
	if st == nil {
		v, _, _ := decide(ctx, k, now, 1, 0, stage.Final)
		return v.Reason
	}
	st.Fetch()
	reason := st.Stage.Allow(ctx, now)
	if reason != stage.Granted && !stage.Undecided(ctx, reason) {
		k.Count(now, st, 1, stage.Because(reason), counts(st, 1, reason))
	}
	return reason
}

// counts reports whether the stage of st has counted an event of n tokens that it answered with
// reason. Stages do not count events that cost more than the rule ever allows.
func counts(st *keys.State, n int64, reason stage.Reason) bool {
	return reason != stage.TooCostly || float64(n) <= st.Costliest()
}

// reserve is decide, with what it takes to undo it.
func reserve(ctx context.Context, k *keys.Key, now stage.Instant, n int64, longest time.Duration) taken {
	v, receipt, from := decide(ctx, k, now, n, longest, stage.Take)
	return undoable(k, now, n, v, receipt, from)
}

// undoable is what decide decided, with what it takes to undo it.
func undoable(k *keys.Key, now stage.Instant, n int64, v stage.Verdict, receipt stage.Receipt, from *keys.State) taken {
	t := taken{Verdict: v, of: k, asked: n, at: now, acts: now.Add(v.Wait), from: from, receipt: receipt}
	if receipt.N > 0 && v.Left < 0 {
		t.limit = from.Level(now).Limit
	}
	return t
}

// spend takes n tokens that are spent already; kind is stage.Charge or stage.Before. Its Verdict
// has the reason if the key has no bucket.
func spend(k *keys.Key, now stage.Instant, n int64, kind stage.Kind) (v stage.Verdict) {
	st := k.Current(now)
	if st.Stage == nil {
		return stage.Because(st.Reason)
	}
	if n > 0 {
		v, _ = st.Stage.Take(context.Background(), stage.Request{Now: now, N: n, Kind: kind})
		if kind == stage.Charge {
			k.Charged(st, n)
		}
	}
	return v
}

// taken is a request that was decided, and how to undo it. The zero taken is none.
type taken struct {
	stage.Verdict
	of      *keys.Key
	asked   int64
	at      stage.Instant // when it was decided
	acts    stage.Instant // when the caller may act
	from    *keys.State   // whose Stage gave the receipt
	receipt stage.Receipt
	limit   rate.Limit // of from then, if it left a debt
}

// OK reports whether the event may happen.
func (t *taken) OK() bool { return t.of != nil && t.Verdict.OK() }

// settle corrects what was taken to what the event did cost. If the event cost
// more, the difference is charged to the stage that decides for the key now.
func (t *taken) settle(now stage.Instant, actual int64) {
	actual = max(actual, 0)
	switch extra := actual - t.asked; {
	case !t.OK(): // nothing was taken
	case t.Reason == stage.Bypassed && t.receipt.Rest == nil:
		t.of.Recount(t.from, t.asked, actual)
	case extra > 0 && t.Reason == stage.Granted:
		spend(t.of, now, extra, stage.Charge)
	case t.from != nil:
		t.of.Settle(now, t.from, t.receipt, actual)
	}
}

// cancel says that the caller will not act, as *rate.Reservation's Cancel does. Whole tokens go back unless
// a later caller has reserved on top of them. When the time to act has passed, none go back.
func (t *taken) cancel(now stage.Instant) {
	if t.Reason == stage.Bypassed && now <= t.acts {
		t.settle(now, 0)
		t.asked, t.receipt = 0, stage.Receipt{} // a second call changes nothing
	}
	n := t.receipt.N
	if n == 0 && t.receipt.Rest == nil || t.acts < now {
		return
	}
	level, onTop, rounding := t.from.Level(now), 0.0, 1e-6
	here := !level.Remote && t.By != stage.ByOwner // a remote bucket has debts of its own
	if here && !math.IsInf(t.Left, 1) && level.Limit < rate.Inf {
		// Without the others, the bucket would be this deep in debt now.
		// The limit may have changed meanwhile.
		refilled := float64(min(level.Limit, t.limit)) * max(now.Sub(t.at), 0).Seconds()
		alone := min(t.Left, 0) + refilled
		onTop = max(min(alone, 0)-min(level.Tokens, 0), 0)
		rounding += refilled * float64(level.Limit) * 0.13e-9 // a bucket rounds its tokens up by 1/8 ns
	}
	kept := max(min(int64(math.Ceil(onTop-rounding)), n), 0)
	t.of.Settle(now, t.from, t.receipt, kept)
	t.receipt = stage.Receipt{}
}

// err is why a wait is refused that could last until longest.
func (t *taken) err(ctx context.Context, longest time.Duration) error {
	switch {
	case t.OK():
		return nil
	case t.of == nil:
		return fmt.Errorf("limiter: nothing was taken: %w", ErrNever)
	}
	err, st := errorOf(t.Reason), t.of.Current(t.at)
	ruled := t.of.Name() != "" // else FromRate or FromStage made the limiter, which may have another one's rule behind it
	switch most := st.Terms().Longest(); {
	case t.Reason == stage.Canceled && ctx.Err() != nil:
		return ctx.Err()
	case t.Reason == stage.TooCostly:
		// The rule's terms, this host's bucket and a limiter behind st's stage all give this
		// reason. Callers, metrics and edges treat the three alike, so there is one Reason.
		// Only this text tells them apart, by the costs that each allows now.
		what, most := "this host's part of the burst", math.Floor(st.Level(t.at).Burst)
		switch highest := st.Costliest(); {
		case float64(t.asked) > highest:
			what, most = "the rule's max_cost, which is the burst by default", highest
		case ruled:
		case float64(t.asked) > most:
			what = "the limiter's burst" // and it is in no cluster by itself
		default:
			return fmt.Errorf("limiter: wait for %s: the cost exceeds what one event may cost: %w", t, ErrNever)
		}
		err = fmt.Errorf("the cost exceeds %s, %.0f: %w", what, most, ErrNever)
	case t.Reason == stage.TooManyKeys && ruled:
		rule, most := st.Rule()
		err = fmt.Errorf("rule %q with max_keys %d: %w", rule, most, err)
	case t.Reason != stage.Limited:
	case math.IsInf(t.Left, 1): // no wait would help, and no limit is exceeded
		err = ErrDropped
	case st.By(t.By) == dynamicconfig.FallbackClosed.String(), !ruled && t.By == stage.ByFallback && st.Nothing(t.at):
		err = ErrFailed
	case t.RetryAfter == 0 && st.Nothing(t.at):
		err = fmt.Errorf("the limit is zero: %w", ErrNever)
	case longest < most && t.outlasts(st, longest):
		return fmt.Errorf("limiter: wait for %s would exceed the context's deadline: %w", t, context.DeadlineExceeded)
	case most == stage.Forever && t.RetryAfter == 0 && !st.Level(t.at).Remote: // what is elsewhere may not know
		if err = fmt.Errorf("the wait would not end: %w", ErrNever); ruled && st.Level(t.at).Limit <= 0 {
			err = noPart{}
		}
	}
	return fmt.Errorf("limiter: wait for %s: %w", t, err)
}

// outlasts reports whether the wait for t, which is Limited, would be longer than longest. If
// not, a longer one would not help: the debt would be more than max_debt, or the wait longer
// than the max_wait of a rule that is behind st's stage.
func (t *taken) outlasts(st *keys.State, longest time.Duration) bool {
	lacks, level := float64(t.asked)-t.Left, st.Level(t.at)
	if rule := st.Config(); rule != nil {
		if rule.MaxDebt <= 0 {
			return true
		}
		lacks = -t.Left
	}
	if t.RetryAfter == 0 && !level.Remote { // what is elsewhere may not know
		return false
	}
	if level.Limit >= rate.Inf { // what is behind st's stage refuses for another reason than its tokens
		return t.RetryAfter > 0
	}
	return lacks/float64(level.Limit) > longest.Seconds()-1e-6 // for rounding
}

// String is what was asked for.
func (t *taken) String() string { return asked(t.of, t.asked) }

// asked is n tokens or slots of k, for errors.
func asked(k *keys.Key, n int64) string {
	if k.Name() == "" {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%d of %q", n, k.Shown())
}

// errorOf is the error that stands for a reason.
func errorOf(r stage.Reason) error {
	switch r {
	case stage.Unmatched:
		return ErrUnmatched
	case stage.TooManyKeys:
		return ErrTooManyKeys
	case stage.InvalidKey:
		return ErrInvalidKey
	case stage.InvalidCost:
		return errors.New("a cost cannot be negative")
	case stage.Failed:
		return ErrFailed
	case stage.InFlight:
		return ErrInFlight
	case stage.TooCostly:
		return ErrNever
	case stage.Canceled: // as of a context that is not the one of the wait
		return fmt.Errorf("there was no answer when the caller left: %w", context.Canceled)
	default:
		return ErrTooLong
	}
}
