// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A method that does not return keeps its caller waiting once, and no other method of its
// Owner and no other Owner. When it returns, the latest call follows.
func TestTheLatestCallFollowsOneThatDoesNotReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Guard
		var called []int // by method 0 of Owner 0, which makes one call at a time
		log, release := new(bytes.Buffer), make(chan struct{})
		lines := slog.New(slog.NewTextHandler(log, nil))
		latest := func(owner int, name string, call func() error) (took time.Duration) {
			began := time.Now()
			g.Latest(lines, Method{Owner: owner, Number: owner, Name: name, Call: call})
			return time.Since(began)
		}
		for i := range 5 {
			took := latest(0, "hangs", func() error { <-release; called = append(called, i); return nil })
			if want := map[bool]time.Duration{true: returnsWithin}[i == 0]; took != want {
				t.Errorf("call %d kept its caller waiting for %v, want %v", i, took, want)
			}
		}
		for owner, name := range []string{"returns", "hangs"} {
			returned := false
			if took := latest(owner, name, func() error { returned = true; return nil }); !returned || took != 0 {
				t.Errorf("%s of owner %d: it was called: %v, after %v", name, owner, returned, took)
			}
		}
		time.Sleep(hangsAfter)
		close(release)
		synctest.Wait()
		if want := []int{0, 4}; !slices.Equal(called, want) {
			t.Errorf("calls %v ran, want %v", called, want)
		}
		if n := strings.Count(log.String(), "does not return"); n != 1 {
			t.Errorf("%d lines: %s", n, log)
		}
	})
}

// A method that ends its goroutine, as a failed assertion in a test does, is called again.
func TestAMethodThatEndsItsGoroutineIsCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Guard
		log, calls, began := new(bytes.Buffer), 0, time.Now()
		for range 3 {
			g.Latest(slog.New(slog.NewTextHandler(log, nil)), Method{Name: "ends", Failed: "is broken", Call: func() error { calls++; runtime.Goexit(); return nil }})
			synctest.Wait()
		}
		if took := time.Since(began); calls != 3 || took != 0 || strings.Count(log.String(), "ended its goroutine") != 3 {
			t.Errorf("%d calls in %v: %s", calls, took, log)
		}
	})
}

// A caller waits for its own call alone, and a call that is slow is not said to hang.
func TestACallerWaitsForNoCallThatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Guard
		log := new(bytes.Buffer)
		lines := slog.New(slog.NewTextHandler(log, nil))
		slow := Method{Name: "slow", Call: func() error { time.Sleep(returnsWithin * 3 / 4); return nil }}
		began := time.Now()
		ended := make(chan time.Duration, 1)
		go func() { g.Latest(lines, slow); ended <- time.Since(began) }()
		for range 50 {
			time.Sleep(returnsWithin / 2)
			g.Latest(lines, slow)
		}
		if took := <-ended; took != returnsWithin*3/4 {
			t.Errorf("the first caller waited for %v", took)
		}
		synctest.Wait()
		if log.Len() > 0 {
			t.Error(log)
		}
		time.Sleep(2 * returnsWithin) // the last call returns
	})
}

func TestUntilReturnsWhenItsTimeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Guard
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		release, began := make(chan struct{}), time.Now()
		g.Until(ctx, slog.New(slog.DiscardHandler), Method{Call: func() error { <-release; return nil }})
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it returned after %v", took)
		}
		close(release)
		synctest.Wait()
	})
}

// Each error is logged. Panics are logged once in a minute, with how many there were.
func TestErrorsAndPanicsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Guard
		log := new(bytes.Buffer)
		lines := slog.New(slog.NewTextHandler(log, nil))
		errs := Method{Failed: "erred", Level: slog.LevelWarn, Call: func() error { return errors.New("a reason") }}
		panics := Method{Failed: "panicked", Call: func() error { panic("a defect") }}
		for range 3 {
			g.Latest(lines, errs)
			g.Latest(lines, panics)
		}
		time.Sleep(panicsEvery + time.Second)
		g.Latest(lines, panics)
		for want, n := range map[string]int{"level=WARN": 3, "a reason": 3, "owner of keys panicked": 2, "panics_since_last_line=2": 1} {
			if got := strings.Count(log.String(), want); got != n {
				t.Errorf("%q is logged %d times, want %d: %s", want, got, n, log)
			}
		}
	})
}
