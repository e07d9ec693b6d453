// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/stage"
)

// elsewhere is a Remote: a bucket of its own for each key, which can fail.
type elsewhere struct {
	mu      sync.Mutex
	buckets map[string]*bucket.Bucket
	now     func() stage.Instant
	err     error
	answer  *stage.Outcome // if not nil
	delay   time.Duration  // of an answer
	asked   int
	lends   float64 // beside each take
	last    stage.Operation

	ahead      []stage.Operation // loans that were asked for alone
	lendsAhead float64

	delayed func() // is called while a take is under way
}

func newElsewhere(now func() stage.Instant) *elsewhere {
	return &elsewhere{buckets: make(map[string]*bucket.Bucket), now: now}
}

// A charge makes no deeper a debt than the remote bucket has, so that Tokens says what there is,
// and what follows that bucket begins with no more debt.
func TestTokensOfARemoteBucketAreNotBelowTheDeepestDebt(t *testing.T) {
	var now stage.Instant
	e := newElsewhere(func() stage.Instant { return now })
	rule := exact(5)
	rule.MaxDebt = 2 * time.Second
	g := NewGroup(snapshot(t, rule), 1, WithRemote("exact", e), WithBackground(func(func()) {}))
	k := g.For("k")
	if got := take(k, now, 8); got == 0 {
		t.Fatal("nothing is allowed")
	}
	k.Stage().Take(t.Context(), stage.Request{Now: now, N: 1e6, Kind: stage.Charge})
	deepest := -k.Rule().MostDebt()
	if got := k.Stage().Level(now).Tokens; got != deepest {
		t.Errorf("%v tokens, want %v", got, deepest)
	}
}

func (e *elsewhere) Do(ctx context.Context, t stage.Operation) (stage.Outcome, error) {
	if e.delay > 0 {
		if err := sleep(ctx, e.delay); err != nil {
			return stage.Outcome{}, err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.delayed != nil {
		e.delayed()
	}
	if t.N == 0 && t.More > 0 { // it asks ahead
		e.ahead = append(e.ahead, t)
		return stage.Outcome{OK: true, Lent: min(e.lendsAhead, t.More)}, e.err
	}
	e.asked++
	e.last = t
	switch {
	case e.err != nil:
		return stage.Outcome{}, e.err
	case e.answer != nil:
		return *e.answer, nil
	}
	b, now := e.buckets[t.Key], e.now()
	if b == nil {
		b = new(bucket.Bucket)
		b.Init(bucket.NewPace(t.Rule.Limit, t.Rule.Burst))
		e.buckets[t.Key] = b
	}
	switch t.Kind {
	case stage.ChargeTokens:
		b.Add(now, -t.N)
		return stage.Outcome{OK: true, Left: b.Tokens(now)}, nil
	case stage.ReturnTokens:
		b.Add(now, t.N)
		return stage.Outcome{OK: true, Left: b.Tokens(now)}, nil
	}
	v, _ := b.Take(stage.Request{Now: now, N: int64(t.N), Longest: t.Longest}, max(t.Rule.MaxDebt, 0))
	return stage.Outcome{OK: v.OK(), Wait: v.Wait, RetryAfter: v.RetryAfter, Left: b.Tokens(now), Lent: e.lends}, nil
}

func (e *elsewhere) set(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.err = err
}

func exact(limit float64) dynamicconfig.Rule {
	return dynamicconfig.Rule{Key: "k", Limit: 10, Burst: limit, Algorithm: "exact", IdleAfter: time.Hour}
}

func TestARemoteDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElsewhere(stage.Now)
		r := exact(10)
		r.MaxWait = time.Second
		a, b := NewGroup(snapshot(t, r), 2, WithRemote("exact", e)), NewGroup(snapshot(t, r), 2, WithRemote("exact", e))
		for i, got := range []bool{a.For("k").AllowN(time.Now(), 6), b.For("k").AllowN(time.Now(), 6), b.For("k").AllowN(time.Now(), 4), a.For("k").Allow()} {
			if want := i == 0 || i == 2; got != want {
				t.Errorf("call %d: %v", i, got)
			}
		}
		d := a.For("k").Decide(t.Context(), 5, -1)
		if want := (Decision{OK: true, Wait: time.Second / 2, Limit: 10, Burst: 10, Left: -5, By: "exact"}); !sameDecision(d, want) {
			t.Errorf("decided %+v", d)
		}
		d = b.For("k").Decide(t.Context(), 6, time.Hour)
		if want := (Decision{Reason: Limited, RetryAfter: time.Second / 10, Limit: 10, Burst: 10, Left: -5, By: "exact"}); !sameDecision(d, want) {
			t.Errorf("decided %+v", d)
		}
		asked := e.asked
		d = b.For("k").Decide(t.Context(), 11, 0)
		if want := (Decision{Reason: TooCostly, Limit: 10, Burst: 10, Left: -5, By: "exact"}); !sameDecision(d, want) {
			t.Errorf("decided %+v", d)
		}
		if d := b.For("k").Decide(t.Context(), -1, 0); d.Reason != InvalidCost || e.asked != asked {
			t.Errorf("decided %+v", d)
		}
		began := time.Now()
		if err := a.For("k").WaitN(t.Context(), 1); err != nil || time.Since(began).Round(time.Millisecond) != 600*time.Millisecond {
			t.Errorf("waited %v: %v", time.Since(began), err)
		}
		if got := a.For("k").Tokens(); math.Abs(got) > 1e-6 {
			t.Errorf("%v tokens when the wait is over", got)
		}
		if batches := a.Manual().Report(stage.Now().Add(time.Second)); len(batches) > 0 {
			t.Errorf("owners hear %+v", batches[0].Usage)
		}
		if s := only(t, a, stage.Now(), "k"); s.Allowed != 12 || s.Rejected != 1 || s.Fallback {
			t.Errorf("%+v", s)
		}
		a.keys().Join()
		b.keys().Join()
	})
}

func TestAChangeOfRulesKeepsWhatIsOwed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElsewhere(stage.Now)
		e.set(errors.New("away"))
		r := exact(10)
		g := NewGroup(snapshot(t, r), 1, WithRemote("exact", e))
		k := g.For("k")
		k.AllowN(time.Now(), 4)
		r.MaxWait = time.Second
		g.Manual().Configure(stage.Now(), snapshot(t, r))
		e.set(nil)
		k.Allow()
		g.keys().Join()
		if got := e.buckets["k"].Tokens(stage.Now()); math.Abs(got-5) > 1e-6 {
			t.Errorf("%v tokens are left, want 10 - 4 - 1", got)
		}
	})
}

func sameDecision(a, b Decision) bool {
	ok := math.Abs(a.Left-b.Left) < 1e-6 && (a.Wait-b.Wait).Abs() < time.Microsecond && (a.RetryAfter-b.RetryAfter).Abs() < time.Microsecond
	a.Left, a.Wait, a.RetryAfter = b.Left, b.Wait, b.RetryAfter
	return ok && a == b
}

func TestWhatTheFallbackLetsThroughIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElsewhere(stage.Now)
		g := NewGroup(snapshot(t, exact(10)), 2, WithRemote("exact", e))
		k := g.For("k")
		e.set(errors.New("away"))
		if d := k.Decide(t.Context(), 5, 0); !d.OK || d.By != "even" || d.Limit != 5 || d.Burst != 5 {
			t.Errorf("decided %+v", d)
		}
		if d := k.Decide(t.Context(), 1, 0); d.OK || d.Reason != Limited || d.By != "even" {
			t.Errorf("decided %+v", d)
		}
		if s := only(t, g, stage.Now(), "k"); !s.Fallback || s.Level.Limit != 5 {
			t.Errorf("in fallback, it shows %+v", s)
		}
		r := reserveAt(k, stage.Now(), 1, time.Second)
		if !r.OK() || r.Wait == 0 {
			t.Error("the fallback makes nobody wait")
		}
		r.settle(stage.Now(), 0) // it did not happen
		e.set(nil)
		if d := k.Decide(t.Context(), 1, 0); !d.OK || d.By != "exact" {
			t.Errorf("decided %+v", d)
		}
		g.keys().Join()
		if got := e.buckets["k"].Tokens(stage.Now()); math.Abs(got-4) > 1e-6 {
			t.Errorf("%v tokens are left, want 10 - 1 - 5", got)
		}
		e.set(errors.New("away"))
		k.Charge(7) // cannot be told yet
		g.keys().Join()
		e.set(nil)
		k.Take(t.Context(), 1, 0).Cancel()
		g.keys().Join()
		k.Take(t.Context(), 1, 0).Cancel()
		g.keys().Join()
		if got := e.buckets["k"].Tokens(stage.Now()); math.Abs(got+3) > 1e-6 {
			t.Errorf("%v tokens are left after a charge of 7", got)
		}
	})
}

func TestARemoteThatFailsUnderEachFallback(t *testing.T) {
	for fallback, want := range map[dynamicconfig.Fallback]struct {
		ok     bool
		reason Reason
	}{
		dynamicconfig.FallbackEven:   {true, Granted},
		dynamicconfig.FallbackOpen:   {true, Granted},
		dynamicconfig.FallbackClosed: {false, Failed},
		dynamicconfig.FallbackSafe:   {true, Granted},
	} {
		r := exact(10)
		r.Fallback = fallback
		if fallback == dynamicconfig.FallbackSafe {
			r.SafeCapacity = 2
		}
		for name, e := range map[string]*elsewhere{
			"error": {err: errors.New("away")}, "no number": {answer: &stage.Outcome{OK: true, Left: math.NaN()}},
			"infinite": {answer: &stage.Outcome{OK: true, Left: math.Inf(1)}}, "the past": {answer: &stage.Outcome{OK: true, Wait: -1}},
		} {
			g := NewGroup(snapshot(t, r), 2, WithRemote("exact", e))
			if d := decideAt(g.For("k"), 0, 1, 0); d.OK != want.ok || d.Reason != want.reason || d.By != fallback.String() {
				t.Errorf("%s, %v: %+v", name, fallback, d)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := g.For("k").Wait(ctx); (err == nil) != want.ok || !want.ok && !errors.Is(err, ErrFailed) {
				t.Errorf("%s, %v: %v", name, fallback, err)
			}
			cancel()
		}
	}
}

// broken is a Remote that panics while it is broken.
type broken struct {
	*elsewhere
	broken bool
}

func (b *broken) Do(ctx context.Context, t stage.Operation) (stage.Outcome, error) {
	if b.broken {
		panic("a defect")
	}
	return b.elsewhere.Do(ctx, t)
}

// A Remote that panics, for the caller or for a goroutine of the Group, fails as
// one that returns an error does: the fallback decides, what is owed stays owed,
// and the panic is counted and logged.
func TestARemoteThatPanicsEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &broken{newElsewhere(stage.Now), true}
		scope := tally.NewTestScope("", nil)
		var log bytes.Buffer
		g := NewGroup(snapshot(t, exact(10)), 1, WithRemote("exact", e), WithScope(scope), WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		k := g.For("k")
		if d := k.Decide(t.Context(), 2, 0); !d.OK || d.By != "even" {
			t.Errorf("decided %+v", d)
		}
		k.Charge(3) // in the background
		g.keys().Join()
		if got := scope.Snapshot().Counters()["limiter.remote_failures+"].Value(); got != 2 {
			t.Errorf("%d failures are counted, want 2", got)
		}
		if got := strings.Count(log.String(), "a defect"); got < 2 {
			t.Errorf("%d panics are logged:\n%s", got, &log)
		}
		e.broken = false
		k.Take(t.Context(), 1, 0).Cancel()
		g.keys().Join()
		if got := e.buckets["k"].Tokens(stage.Now()); math.Abs(got-5) > 1e-6 {
			t.Errorf("%v tokens are left, want 10 - 2 - 3", got)
		}
	})
}

// A remote bucket that says that its debt is absurd closes its key for a bounded time, also
// for the algorithm that follows.
func TestAnAbsurdDebtElsewhereIsBounded(t *testing.T) {
	for _, left := range []float64{-1e300, -1e18} {
		lies := remoteFunc(func(context.Context, stage.Operation) (stage.Outcome, error) { return stage.Outcome{Left: left}, nil })
		rule := exact(10)
		g := NewGroup(snapshot(t, rule), 1, WithRemote("exact", lies), WithBackground(func(f func()) { f() }))
		allowAt(g.For("k"), 0, 1)
		rule.Algorithm = Even
		g.Manual().Configure(second, snapshot(t, rule))
		if allowAt(g.For("k"), 2*second, 1) {
			t.Errorf("%v: a new burst", left)
		}
		if !allowAt(g.For("k"), 2*3600*second, 1) {
			t.Errorf("%v: it is closed for longer than an hour: %+v", left, keyOf(g.For("k")).Level(2*3600*second))
		}
	}
}

// A caller whose context ends does not make the fallback decide.
func TestACallerThatLeavesIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newElsewhere(stage.Now)
		e.delay = time.Second
		g := NewGroup(snapshot(t, exact(10)), 1, WithRemote("exact", e))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if d := g.For("k").Decide(ctx, 1, 0); d.OK || d.By != "exact" || d.Reason != Canceled {
			t.Errorf("decided %+v", d)
		}
		if only(t, g, stage.Now(), "k").Fallback {
			t.Error("the Remote counts as failing")
		}
	})
}

// A remote bucket that fails again at once, and then for good, is warned of.
func TestTheLogEndsWithWhatIsSo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		var err error
		r := remoteFunc(func(context.Context, stage.Operation) (stage.Outcome, error) {
			return stage.Outcome{OK: true, Left: 9}, err
		})
		g := NewGroup(snapshot(t, dynamicconfig.Rule{Key: "k", Limit: 1000, Algorithm: "own"}), 1, WithRemote("own", r),
			WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithBackground(func(f func()) { f() }))
		for _, err = range []error{errors.New("down"), nil, errors.New("down")} {
			g.For("k").Allow()
		}
		for range 100 {
			time.Sleep(100 * time.Millisecond)
			g.For("k").Allow()
		}
		if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 3 || !strings.Contains(lines[2], "does not answer") {
			t.Errorf("10 s after the remote bucket failed for good, the log is:\n%s", log.String())
		}
	})
}

func TestARemoteThatAnswersAgainHidesNoOtherThatDoesNot(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		down := map[string]bool{"a": true, "b": true}
		r := remoteFunc(func(_ context.Context, op stage.Operation) (stage.Outcome, error) {
			if down[op.Key] {
				return stage.Outcome{}, errors.New("down")
			}
			return stage.Outcome{OK: true, Left: 9}, nil
		})
		g := NewGroup(snapshot(t, dynamicconfig.Rule{Key: "a", Limit: 1000, Algorithm: "one"}, dynamicconfig.Rule{Key: "b", Limit: 1000, Algorithm: "other"}), 1,
			WithRemote("one", r), WithRemote("other", r), WithLogger(slog.New(slog.NewTextHandler(&log, nil))), WithBackground(func(f func()) { f() }))
		for i := range 10 {
			g.For("a").Allow()
			g.For("b").Allow()
			down["a"], down["b"] = i < 3, i < 6
			time.Sleep(time.Second)
		}
		if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 4 ||
			!strings.Contains(lines[2], "does not answer") || !strings.Contains(lines[2], "other") || !strings.Contains(lines[3], "answers again") {
			t.Errorf("one remote bucket answers again and the other does not, and the log is:\n%s", log.String())
		}
	})
}

// However many keys fall back at a time, and whenever their calls began, the log has a line in a
// second, which says how many calls it stands for.
func TestManyKeysThatFallBackAreOneLine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const slow = 50
		var log bytes.Buffer
		answers := false // about the key sometimes
		r := remoteFunc(func(_ context.Context, op stage.Operation) (stage.Outcome, error) {
			switch {
			case strings.HasPrefix(op.Key, "slow"):
				time.Sleep(5 * time.Second)
			case op.Key == "sometimes" && answers:
				return stage.Outcome{OK: true, Left: 9}, nil
			}
			return stage.Outcome{}, errors.New("down")
		})
		g := NewGroup(snapshot(t, dynamicconfig.Rule{Key: "*", Limit: 1000, Algorithm: "own"}), 1, WithRemote("own", r),
			WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))), WithBackground(func(f func()) { f() }))
		var calls sync.WaitGroup
		for i := range slow {
			calls.Go(func() { g.For(fmt.Sprint("slow", i)).Allow() })
			time.Sleep(time.Millisecond) // else all end at once
		}
		time.Sleep(4900 * time.Millisecond)
		for range 200 {
			answers = false
			g.For("sometimes").Allow()
			answers = true
			g.For("sometimes").Allow()
			time.Sleep(time.Millisecond)
		}
		calls.Wait()
		time.Sleep(2 * time.Second)
		g.For("last").Allow()
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "others=0") || !strings.Contains(lines[1], fmt.Sprintf("others=%d", slow+199)) {
			t.Errorf("the log is:\n%s", log.String())
		}
	})
}
