// SPDX-License-Identifier: Apache-2.0

package headgatetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/headgatetest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
)

func TestMain(m *testing.M) { waittest.Main(m) }

func TestAllowAllAllowsEverything(t *testing.T) {
	l := headgatetest.AllowAll()
	e := l.Take(t.Context(), 1<<30, 0)
	e.Settle(1 << 30)
	l.Charge(1 << 30)
	if !l.Allow() || !l.AllowN(time.Now(), 1<<30) || !e.OK() || !l.Reserve().OK() || l.Wait(t.Context()) != nil {
		t.Error("something is refused")
	}
	release, err := l.Acquire(t.Context(), 1000)
	if err != nil {
		t.Error(err)
	}
	release()
}

func TestRefuseAllRefusesEverything(t *testing.T) {
	l := headgatetest.RefuseAll()
	l.Charge(1)
	if l.Allow() || l.Reserve().OK() || l.Tokens() != 0 || l.Limit() != 0 || l.Burst() != 0 {
		t.Error("something is allowed")
	}
	if d := l.Decide(t.Context(), 1, -1); d.OK || d.Reason != limiter.Limited || d.RetryAfter != time.Second {
		t.Errorf("%+v", d)
	}
	if err := l.Wait(t.Context()); !errors.Is(err, limiter.ErrTooLong) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := l.Acquire(t.Context(), 1); !errors.Is(err, limiter.ErrTooLong) {
		t.Errorf("Acquire: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
		t.Errorf("Wait with a deadline: %v", err)
	}
}

func TestFixedAnswersTheSame(t *testing.T) {
	for reason := stage.Granted; int(reason) < stage.Reasons; reason++ {
		l := headgatetest.Fixed(stage.Because(reason))
		if d := l.Decide(t.Context(), 3, 0); d.Reason != reason || d.OK != (reason <= stage.Bypassed) {
			t.Errorf("%v: %+v", reason, d)
		}
	}
}

func TestFixedWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := headgatetest.Fixed(stage.Verdict{Wait: 2 * time.Second})
		if d := l.Decide(t.Context(), 1, time.Second); d.OK || d.RetryAfter != time.Second {
			t.Errorf("a caller that would wait for 1 s: %+v", d)
		}
		if l.Allow() {
			t.Error("Allow did not wait")
		}
		began := time.Now()
		if err := l.Wait(t.Context()); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("waited for %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with too little time: %v", err)
		}
	})
}

const logins = `limits: [{key: "login:*", limit: 5/m, burst: 5}]`

// allowed is how many of n events are allowed now.
func allowed(l *limiter.Limiter, n int) (ok int) {
	for range n {
		if l.Allow() {
			ok++
		}
	}
	return ok
}

func TestAGroupHasWholeLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := headgatetest.NewGroup(t, logins).For("login:ann")
		if n := allowed(l, 10); n != 5 {
			t.Errorf("%d of 10 at once", n)
		}
		time.Sleep(24 * time.Second)
		if n := allowed(l, 10); n != 2 {
			t.Errorf("%d of 10 after 24 s", n)
		}
	})
}

func TestANodeRunsWithoutSockets(t *testing.T) {
	for _, algorithm := range []string{"elastic", "exact", "auto", "gossip", "fair-share"} {
		t.Run(algorithm, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				node := headgatetest.NewNode(t, fmt.Sprintf(`limits: [{key: "k", limit: 10/s, burst: 20, algorithm: %s}]`, algorithm))
				l := node.For("k")
				if n := allowed(l, 30); n != 20 {
					t.Errorf("%d of 30 at once", n)
				}
				got := 0
				for range 60 { // its owner has granted the key by then
					time.Sleep(time.Second)
					got += allowed(l, 5)
				}
				if got < 280 { // the first grant may take back a part of the first burst
					t.Errorf("%d of 300 in a minute", got)
				}
				st, _ := node.Group().Inspect("k")
				if len(st.Shares) != 1 || st.Shares[0].Algorithm != algorithm || st.Shares[0].Fallback {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// Refunds and charges reach a remote bucket, and the buckets of gossip, in the background, and this host's own
// bucket at once: docs/testing.md says when a test has to wait.
func TestWhatIsGivenBackIsThereAfterAWait(t *testing.T) {
	for algorithm, atOnce := range map[string]bool{
		"even": true, "request-weighted": true, "elastic": true, "fair-share": true,
		"auto": false, "exact": false, "gossip": false,
	} {
		t.Run(algorithm, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := headgatetest.NewNode(t, fmt.Sprintf(`limits: [{key: "k", limit: 1/m, burst: 10, algorithm: %s}]`, algorithm)).For("k")
				for _, e := range []*limiter.Estimate{l.Take(t.Context(), 6, 0), l.Take(t.Context(), 4, 0)} {
					if e.Cancel(); !e.OK() {
						t.Fatal("a full bucket refuses")
					}
				}
				if !atOnce {
					synctest.Wait()
				}
				if !l.AllowN(time.Now(), 10) {
					t.Error("not all tokens are back")
				}
			})
		})
	}
}

// TestLimitsWithAMistakeFailTheTest uses a TB of its own.
func TestLimitsWithAMistakeFailTheTest(t *testing.T) {
	for name, f := range map[string]func(headgatetest.TB){
		"group":            func(t headgatetest.TB) { headgatetest.NewGroup(t, `limits: [{key: k}]`) },
		"node":             func(t headgatetest.TB) { headgatetest.NewNode(t, `limits: [{key: k}]`) },
		"unknown to nodes": func(t headgatetest.TB) { headgatetest.NewNode(t, `limits: [{key: k, limit: 1/s, algorithm: mine}]`) },
	} {
		fatal := &failure{TB: t}
		func() {
			defer func() { _ = recover() }()
			f(fatal)
		}()
		if !strings.HasPrefix(fatal.message, "headgatetest: ") {
			t.Errorf("%s: %q", name, fatal.message)
		}
	}
}

// failure keeps the message of Fatalf, which panics.
type failure struct {
	testing.TB

	message string
}

// Fatalf ends the call.
func (f *failure) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	panic(f.message)
}
