// SPDX-License-Identifier: Apache-2.0

package quotaservice

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBreaker(t *testing.T) {
	random := 0.0
	b := &breaker{most: 2, probe: time.Second, random: func() float64 { return random }}
	at := func(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }
	enter := func(ms int, want bool) question {
		t.Helper()
		q, ok := b.enter(at(ms))
		if ok != want {
			t.Fatalf("at %d ms: %v", ms, ok)
		}
		return q
	}
	leave := func(q question, ms int, answered, opened bool) {
		t.Helper()
		if b.leave(q, at(ms), answered) != opened {
			t.Fatalf("at %d ms: opened %v", ms, !opened)
		}
	}
	leave(enter(0, true), 0, false, false)
	leave(enter(0, true), 0, true, false) // so that it is not two in a row
	late := enter(0, true)
	leave(enter(0, true), 0, false, false)
	leave(enter(0, true), 0, false, true)
	leave(late, 0, true, false) // began before: it says nothing
	enter(999, false)
	probe := enter(1000, true)
	enter(1000, false) // one at a time
	random = 0.999
	leave(probe, 1000, false, false)
	enter(2499, false)
	probe = enter(2500, true)
	b.abandon(probe)
	leave(enter(2500, true), 2500, true, false)
	leave(enter(2500, true), 2500, false, false)
	enter(2500, true)
	enter(2500, true)
}

// Whatever happens, it opens only after as many failures, does not stay open
// when somebody answers, and lets one ask at a time while it is open.
func TestBreakerIsNeverStuck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(t, "most")
		b := &breaker{most: most, probe: time.Second, random: func() float64 { return rapid.Float64Range(0, 0.999).Draw(t, "random") }}
		now := time.Unix(0, 0)
		var under []question
		failures := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 800).Draw(t, "ms")) * time.Millisecond)
			if rapid.Bool().Draw(t, "ask") {
				open := b.open
				q, ok := b.enter(now)
				if !ok && !open {
					t.Fatal("a closed one refuses")
				}
				if ok {
					under = append(under, q)
				}
			} else if len(under) > 0 {
				i := rapid.IntRange(0, len(under)-1).Draw(t, "which")
				q := under[i]
				under = append(under[:i], under[i+1:]...)
				answered := rapid.Bool().Draw(t, "answered")
				if answered {
					failures = 0
				} else {
					failures++
				}
				if b.leave(q, now, answered) && failures == 0 {
					t.Fatal("an answer opens it")
				}
			}
			probes := 0
			for _, q := range under {
				if q.probe && q.era == b.era {
					probes++
				}
			}
			if probes > 1 {
				t.Fatalf("%d probes", probes)
			}
		}
		for _, q := range under {
			b.leave(q, now, false)
		}
		now = now.Add(time.Minute)
		q, ok := b.enter(now)
		if !ok {
			t.Fatal("it is stuck")
		}
		b.leave(q, now, true)
		if _, ok := b.enter(now); !ok || b.open {
			t.Fatal("it is open though somebody answers")
		}
	})
}
