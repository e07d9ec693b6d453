// SPDX-License-Identifier: Apache-2.0

// Package headgatetest helps to test services that use headgate: with limiters
// that always give the same answer, and with a Group or a Node that opens no socket.
//
//	func TestRefusedCallersGet429(t *testing.T) {
//		server := newServer(headgatetest.RefuseAll()) // takes a *limiter.Limiter
//		…
//	}
//
//	func TestTheSixthLoginIsRefused(t *testing.T) {
//		node := headgatetest.NewNode(t, `limits: [{key: "login:*", limit: 5/m, burst: 5}]`)
//		…
//	}
//
// Everything works in a bubble of testing/synctest, where time passes as soon as
// all goroutines wait; docs/testing.md shows how. The package does not test
// several hosts together: a Node of this package is alone.
package headgatetest

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
)

// TB is what this package uses of *testing.T and *testing.B.
type TB interface {
	Helper()
	Cleanup(f func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// AllowAll returns a Limiter that allows every event.
func AllowAll() *limiter.Limiter { return Fixed(stage.Verdict{Left: math.Inf(1)}) }

// RefuseAll returns a Limiter that refuses every event because of its limit, and
// asks the caller to come back after a second. Wait fails at once, with
// context.DeadlineExceeded if its context has a deadline, or else limiter.ErrTooLong.
func RefuseAll() *limiter.Limiter {
	v := stage.Because(stage.Limited)
	v.RetryAfter = time.Second
	return Fixed(v)
}

// Fixed returns a Limiter that always answers v. It takes no tokens. If v is OK
// and has a Wait, callers that would wait for less are refused, as by any other
// Limiter: Allow is refused, and Wait waits.
func Fixed(v stage.Verdict) *limiter.Limiter { return limiter.FromStage(fixed(v)) }

// fixed is a stage.Stage that always answers the same.
type fixed stage.Verdict

// Take implements stage.Stage.
func (f fixed) Take(_ context.Context, r stage.Request) (stage.Verdict, stage.Receipt) {
	v := stage.Verdict(f)
	switch {
	case r.Kind >= stage.Charge:
		v = stage.Verdict{Left: v.Left} // always OK
	case v.OK() && v.Wait > r.Longest:
		v = stage.Because(stage.Limited)
		v.RetryAfter = f.Wait - r.Longest
	}
	return v, stage.Receipt{}
}

// Allow implements stage.Stage.
func (f fixed) Allow(ctx context.Context, now stage.Instant) stage.Reason {
	return stage.AllowByTake(ctx, now, f.Take)
}

// Settle implements stage.Stage.
func (fixed) Settle(stage.Instant, stage.Receipt, int64) {}

// Cap implements stage.Stage.
func (fixed) Cap(stage.Instant, float64) {}

// Level implements stage.Stage: no limit if all is allowed, else a limit of 0.
func (f fixed) Level(stage.Instant) stage.Level {
	l := stage.Level{Tokens: f.Left}
	if stage.Verdict(f).OK() {
		l.Limit, l.Burst = rate.Inf, math.Inf(1)
	}
	return l
}

// Open implements stage.Stage: a wait is as long as the test says.
func (fixed) Open() (open bool, changed []<-chan struct{}) { return false, nil }
