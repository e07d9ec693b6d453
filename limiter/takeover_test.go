// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// lagging is a remote bucket for each key, of which charges take longer than events do.
type lagging struct {
	charge, take time.Duration
	lost         int // charges, from now on, that have no answer after charge

	mu      sync.Mutex // protects following fields, and lost
	away    bool       // nothing is answered
	buckets map[string]*exactbucket.Bucket
	known   map[uint64]bool
}

func (l *lagging) Do(ctx context.Context, op stage.Operation) (o stage.Outcome, err error) {
	takes := l.take
	if op.Kind == stage.ChargeTokens {
		takes = l.charge
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return o, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()

	if l.away {
		return o, errors.New("it does not answer")
	}
	now := time.Duration(stage.Now())
	b := l.buckets[op.Key]
	if b == nil {
		full := exactbucket.New(now, exactbucket.Rule{Rate: float64(op.Rule.Limit), Burst: op.Rule.Burst})
		b = &full
		l.buckets[op.Key] = b
	}
	switch {
	case op.Kind == stage.TakeTokens:
		v := b.Take(now, op.N, op.Longest)
		return stage.Outcome{OK: v.OK, Wait: v.Wait, Left: b.Level(now)}, nil
	case l.lost > 0:
		l.lost--
		return o, errors.New("the charge is lost")
	case !l.known[op.ID] && op.Kind == stage.ChargeTokens:
		b.Charge(now, op.N, -op.Rule.MostDebt())
	case !l.known[op.ID]:
		b.Give(now, op.N)
	}
	l.known[op.ID] = true
	return stage.Outcome{OK: true, Left: b.Level(now)}, nil
}

// set says whether l is away from now on.
func (l *lagging) set(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()

	l.away = away
}

// moves is a Group whose key k has used 7 of its 10 tokens on this host. configure gives it another rule.
func moves(t *testing.T, algorithm, before, more string, l *lagging) (g *limiter.Group, configure func(how string)) {
	t.Helper()
	l.buckets, l.known = make(map[string]*exactbucket.Bucket), make(map[uint64]bool)
	text := "limits: [{key: k, limit: 0.001/s, burst: 10, " + more + "%s}]"
	g = limiter.NewGroup(traceLimits(t, fmt.Sprintf(text, before)), 1, limiter.WithMigration(shadow.Migrator()), limiter.WithRemote(algorithm, l))
	for range 7 {
		if !g.For("k").Allow() {
			t.Fatal("the host has 10 tokens")
		}
	}
	return g, func(how string) { g.Configure(traceLimits(t, fmt.Sprintf(text, how))) }
}

// atOnce is how many of n events pass that come at the same time, by what decides.
func atOnce(t *testing.T, g *limiter.Group, n int) map[string]int {
	var all sync.WaitGroup
	decisions := make(chan limiter.Decision, n)
	for range n {
		all.Go(func() { decisions <- g.For("k").Decide(t.Context(), 1, 0) })
	}
	all.Wait()
	close(decisions)
	passed := make(map[string]int)
	for d := range decisions {
		if d.OK {
			passed[d.By]++
		}
	}
	return passed
}

// ways are how a key may come from even to another algorithm.
var ways = [][2]string{
	{"algorithm: even", "algorithm: %s"},
	{"algorithm: even", "migrate: {from: even, to: %s, mode: new}"},
	{"algorithm: even", "migrate: {from: %s, to: even, mode: old-shadow-new}"},
	{"migrate: {from: even, to: %s, mode: old}", "migrate: {from: even, to: %s, mode: new}"},
	{"migrate: {from: even, to: %s, mode: old}", "algorithm: %s"},
}

// A burst that comes at the very instant of a change is decided by the remote bucket once that knows what was used
// before.
func TestARemoteBucketThatTakesOverKnowsWhatWasUsedBeforeItIsAsked(t *testing.T) {
	for _, algorithm := range []string{"exact", "auto", "redis", "mine"} {
		for _, way := range ways {
			synctest.Test(t, func(t *testing.T) {
				before, after := strings.ReplaceAll(way[0], "%s", algorithm), strings.ReplaceAll(way[1], "%s", algorithm)
				g, configure := moves(t, algorithm, before, "", &lagging{charge: 5 * time.Millisecond, take: time.Millisecond})
				configure(after)
				if passed := atOnce(t, g, 20); passed[algorithm]+passed["owner"] != 3 || len(passed) != 1 {
					t.Errorf("%s, then %s: %v pass, want the 3 that are left elsewhere", before, after, passed)
				}
				time.Sleep(time.Second) // what runs in the background ends
			})
		}
	}
}

// A rule comes to a remote bucket and to a smaller burst at once. As in a bucket that stays, only what the smaller
// burst has no room for is lost.
func TestARemoteBucketWithASmallerBurstLacksNoMoreThanOneThatStays(t *testing.T) {
	for _, algorithm := range []string{"exact", "auto", "redis"} {
		for _, row := range []struct{ burst, used, next, left int }{
			{400, 94, 10, 10}, {50, 45, 10, 5}, {50, 50, 10, 0}, {10, 7, 10, 3},
		} {
			synctest.Test(t, func(t *testing.T) {
				l := &lagging{charge: time.Millisecond, take: time.Millisecond, buckets: make(map[string]*exactbucket.Bucket), known: make(map[uint64]bool)}
				text := "limits: [{key: k, limit: 0.001/s, burst: %d, algorithm: %s}]"
				g := limiter.NewGroup(traceLimits(t, fmt.Sprintf(text, row.burst, "even")), 1, limiter.WithRemote(algorithm, l))
				g.For("k").AllowN(time.Now(), row.used)
				g.Configure(traceLimits(t, fmt.Sprintf(text, row.next, algorithm)))
				left := 0
				for g.For("k").Allow() {
					left++
				}
				if left != row.left {
					t.Errorf("%s: %d of %d used, then a burst of %d: %d pass, want %d", algorithm, row.used, row.burst, row.next, left, row.left)
				}
				time.Sleep(time.Second)
			})
		}
	}
}

// A charge of which nothing is heard closes no key. Events wait for it no longer than ask_timeout, and not at all once
// the attempt to send it has failed. Then the fallback decides about them, which has what the host had.
func TestAChargeWithoutAnAnswerLeavesEventsToTheFallback(t *testing.T) {
	for _, algorithm := range []string{"exact", "auto", "redis"} {
		for _, row := range []struct {
			charge time.Duration // until it is answered, or fails
			lost   int
			waits  time.Duration // the events that come at the change
		}{
			{time.Millisecond, 1, time.Millisecond},
			{time.Hour, 0, 20 * time.Millisecond},
			{30 * time.Millisecond, 0, 20 * time.Millisecond},
			{19500 * time.Microsecond, 0, 20 * time.Millisecond}, // and then too late for the ask
		} {
			by := "even"
			if algorithm == "redis" && row.charge == 19500*time.Microsecond { // which has no ask_timeout
				by, row.waits = "redis", 20500*time.Microsecond
			}
			synctest.Test(t, func(t *testing.T) {
				l := &lagging{charge: row.charge, take: time.Millisecond, lost: row.lost}
				g, configure := moves(t, algorithm, "algorithm: even", "", l)
				configure("algorithm: " + algorithm)
				began := time.Now()
				if passed := atOnce(t, g, 20); passed[by] != 3 || len(passed) != 1 || time.Since(began) != row.waits {
					t.Errorf("%s, %v: %v pass, after %v, want 3 by %s", algorithm, row, passed, time.Since(began), by)
				}
				time.Sleep(2 * time.Hour)
			})
		}
	}
}

// Once the charge has its answer, with whichever attempt, the remote bucket decides.
func TestAnEventSendsAChargeAgainThatHadNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lagging{charge: time.Millisecond, take: time.Millisecond, lost: 2}
		g, configure := moves(t, "redis", "algorithm: even", "", l)
		configure("algorithm: redis")
		for i, want := range []limiter.Decision{
			{OK: true, By: "even", Left: 2}, {OK: true, By: "even", Left: 1}, {OK: true, By: "redis"}, {By: "redis"},
		} {
			if d := g.For("k").Decide(t.Context(), 1, 0); d.OK != want.OK || d.By != want.By || math.Abs(d.Left-want.Left) > 0.1 {
				t.Errorf("event %d: %+v, want %+v", i, d, want)
			}
		}
		time.Sleep(time.Second)
	})
}

// An event that sends a charge again waits for it no longer than others do. The charge goes on without it.
func TestAnEventThatSendsAChargeAgainWaitsForItNoLonger(t *testing.T) {
	for _, algorithm := range []string{"exact", "auto", "redis"} {
		synctest.Test(t, func(t *testing.T) {
			l := &lagging{charge: time.Millisecond, take: time.Millisecond, lost: 1}
			g, configure := moves(t, algorithm, "algorithm: even", "", l)
			configure("algorithm: " + algorithm)
			time.Sleep(time.Second)
			synctest.Wait()
			l.charge = 100 * time.Millisecond
			for range 2 {
				began := time.Now()
				if d := g.For("k").Decide(t.Context(), 1, 0); d.By != "even" || time.Since(began) != 20*time.Millisecond {
					t.Errorf("%s: %+v after %v, want it by the fallback after 20ms", algorithm, d, time.Since(began))
				}
			}
			time.Sleep(time.Second)
			if d := g.For("k").Decide(t.Context(), 1, 0); !d.OK || d.By == "even" {
				t.Errorf("%s: %+v, and the charge has been answered", algorithm, d)
			}
			time.Sleep(time.Second)
		})
	}
}

// A remote bucket that answers events and no charges is asked again after a while.
func TestARemoteBucketThatAnswersNoChargesDecidesAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, configure := moves(t, "redis", "algorithm: even", "fallback: closed, ", &lagging{take: time.Millisecond, lost: 1e6})
		configure("algorithm: redis")
		for i, want := range []string{limiter.Failed.String(), limiter.Failed.String(), limiter.Granted.String()} {
			if d := g.For("k").Decide(t.Context(), 1, 0); d.Reason.String() != want {
				t.Errorf("event %d: %+v, want it %s", i, d, want)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// A caller that leaves while its ask waits for a charge, or sends one, is not decided about, and costs others nothing.
func TestACallerMayLeaveWhileAChargeIsSent(t *testing.T) {
	for _, lost := range []int{0, 1} { // with 1, an event sends the charge
		synctest.Test(t, func(t *testing.T) {
			l := &lagging{charge: 5 * time.Millisecond, take: time.Millisecond, lost: lost}
			g, configure := moves(t, "redis", "algorithm: even", "", l)
			configure("algorithm: redis")
			time.Sleep(time.Duration(lost) * 5 * time.Millisecond)
			synctest.Wait()
			began := time.Now()
			var leaves sync.WaitGroup
			leaves.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
				defer cancel()
				if d := g.For("k").Decide(ctx, 1, 0); d.OK || time.Since(began) != 2*time.Millisecond {
					t.Errorf("%d lost: %+v after %v", lost, d, time.Since(began))
				}
			})
			synctest.Wait()
			if passed := atOnce(t, g, 20); passed["redis"] != 3 || len(passed) != 1 {
				t.Errorf("%d lost: %v pass, want 3", lost, passed)
			}
			leaves.Wait()
			time.Sleep(time.Second)
		})
	}
}

// A rule has many keys, more than may be charged for in the background at the same time. Each of them is charged before
// its first event is decided elsewhere.
func TestManyKeysThatChangeTogetherAreChargedBeforeTheyAreAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 2000
		l := &lagging{charge: 5 * time.Millisecond, take: time.Millisecond, buckets: make(map[string]*exactbucket.Bucket), known: make(map[uint64]bool)}
		text := "limits: [{key: 'k:*', limit: 0.001/s, burst: 10, fallback: closed, algorithm: %s}]"
		g := limiter.NewGroup(traceLimits(t, fmt.Sprintf(text, "even")), 1, limiter.WithRemote("redis", l))
		for i := range keys {
			g.For(fmt.Sprint("k:", i)).AllowN(time.Now(), 7)
		}
		g.Configure(traceLimits(t, fmt.Sprintf(text, "redis")))
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() {
				of := g.For(fmt.Sprint("k:", i))
				if d := of.Decide(t.Context(), 4, 0); d.OK || d.By != "redis" {
					t.Errorf("key %d: %+v, and it has 3", i, d)
				}
				if d := of.Decide(t.Context(), 3, 0); !d.OK || d.By != "redis" {
					t.Errorf("key %d: %+v, and it has 3", i, d)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second)
	})
}

// What a host owes a remote bucket that it left, because that did not answer, is charged before the host asks it
// again.
func TestARemoteBucketThatIsAskedAgainKnowsWhatItDidNotHearBefore(t *testing.T) {
	for _, between := range []string{"algorithm: even", "migrate: {from: redis, to: even, mode: new}", "migrate: {from: even, to: redis, mode: old}"} {
		for _, then := range []string{"algorithm: redis", "migrate: {from: redis, to: even, mode: old-shadow-new}", "migrate: {from: even, to: redis, mode: new}"} {
			synctest.Test(t, func(t *testing.T) {
				l := &lagging{charge: 5 * time.Millisecond, take: time.Millisecond}
				g, configure := moves(t, "redis", "algorithm: even", "", l)
				configure("algorithm: redis")
				time.Sleep(time.Second)
				l.set(true)
				atOnce(t, g, 2) // by the fallback
				configure(between)
				time.Sleep(time.Second)
				l.set(false)
				configure(then)
				if passed := atOnce(t, g, 20); passed["redis"] != 1 || len(passed) != 1 {
					t.Errorf("%s, %s: %v pass, want the 1 that is left", between, then, passed)
				}
				time.Sleep(time.Second)
			})
		}
	}
}
