// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// ear is a listener that remembers.
type ear struct {
	mu    sync.Mutex
	heard []Event
}

func (e *ear) hear(events []Event) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.heard = append(e.heard, events...)
}

// lines are the events since the last call.
func (e *ear) lines() []string {
	e.mu.Lock()
	defer e.mu.Unlock()

	var lines []string
	for _, v := range e.heard {
		lines = append(lines, fmt.Sprintf("%v %v %s of %q costs %d waits %v", v.Kind, v.Reason, v.Key, v.Rule, v.Cost, v.Wait.Round(time.Millisecond)))
	}
	e.heard = nil
	return lines
}

// drain passes the queued events to the listeners, and returns when they have.
func drain(g *Group) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	g.keys().Listen(ended)
}

// idle is an Updater that answers nothing.
type idle struct{}

func (idle) Update(context.Context, *usage.Report, time.Duration, func(usage.Part, *usage.Grants, error)) {
}

func expect(t *testing.T, e *ear, what string, want ...string) {
	t.Helper()
	time.Sleep(10 * time.Millisecond)
	synctest.Wait()
	if got := e.lines(); !slices.Equal(got, want) {
		t.Errorf("%s:\n%q\nwant\n%q", what, got, want)
	}
}

func TestListenersHearWhatHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var one, two ear
		r := alone(10, 10)
		r.MaxWait = time.Second
		dynamic := alone(10, 10)
		dynamic.Key, dynamic.MaxKeys, dynamic.Enforce = "d:*", 1, dynamicconfig.Soft
		hard := alone(10, 10)
		hard.Key, hard.MaxKeys = "h:*", 1
		s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{r, dynamic, hard, exactKey("x")}, Unmatched: dynamicconfig.UnmatchedDeny}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		e := newElsewhere(stage.Now)
		g := NewGroup(s, 1, WithListener(one.hear), WithListener(two.hear), WithRemote("exact", e))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			g.Run(ctx, idle{})
			close(ended)
		}()
		k := g.For("k")
		k.Allow()
		expect(t, &one, "first", `created granted k of "k" costs 0 waits 0s`, `served granted k of "k" costs 1 waits 0s`)
		k.AllowN(time.Now(), 9)
		k.Allow()
		k.AllowN(time.Now(), 11)
		expect(t, &one, "allow", `served granted k of "k" costs 9 waits 0s`, `timed-out limited k of "k" costs 1 waits 0s`, `too-large too-costly k of "k" costs 11 waits 0s`)
		k.Decide(ctx, 5, -1)
		k.Reserve().Cancel()
		expect(t, &one, "wait", `waited granted k of "k" costs 5 waits 480ms`, `waited granted k of "k" costs 1 waits 580ms`)
		if err := k.WaitN(ctx, 2); err != nil {
			t.Error(err)
		}
		if err := k.WaitN(ctx, 11); !errors.Is(err, ErrNever) {
			t.Error(err)
		}
		k.Take(ctx, 3, 0)
		expect(t, &one, "wait", `waited granted k of "k" costs 2 waits 670ms`, `too-large too-costly k of "k" costs 11 waits 0s`, `timed-out limited k of "k" costs 3 waits 0s`)

		g.For("d:1").AllowN(time.Now(), 10)
		g.For("d:1").AllowN(time.Now(), 10)
		g.For("d:2").Allow()
		g.For("h:1").Allow()
		g.For("h:2").Allow()
		g.For("nobody's").Allow()
		_ = g.For("nobody's").Wait(ctx)
		expect(t, &one, "dynamic", `created granted d:1 of "d:*" costs 0 waits 0s`, `served granted d:1 of "d:*" costs 10 waits 0s`, `served soft d:1 of "d:*" costs 10 waits 0s`,
			`served soft d:2 of "d:*" costs 1 waits 0s`,
			`created granted h:1 of "h:*" costs 0 waits 0s`, `served granted h:1 of "h:*" costs 1 waits 0s`, `no-bucket too-many-keys h:2 of "h:*" costs 1 waits 0s`,
			`created granted nobody's of "" costs 0 waits 0s`, `no-bucket unmatched nobody's of "" costs 1 waits 0s`, `no-bucket unmatched nobody's of "" costs 1 waits 0s`)

		g.For("x").Allow()
		e.set(errors.New("away"))
		g.For("x").Allow()
		g.For("x").Allow()
		e.set(nil)
		g.For("x").Allow()
		const served = `served granted x of "x" costs 1 waits 0s`
		expect(t, &one, "remote", `created granted x of "x" costs 0 waits 0s`, served, `fallback-entered granted x of "x" costs 0 waits 0s`, served, served, `fallback-left granted x of "x" costs 0 waits 0s`, served)

		time.Sleep(2 * time.Minute)
		var removed []string
		for _, line := range one.lines() {
			if line[:7] == "removed" {
				removed = append(removed, line)
			}
		}
		slices.Sort(removed)
		if len(removed) != 4 { // x stays for an hour
			t.Errorf("removed %q", removed)
		}
		stop()
		<-ended
		if n := len(two.lines()); n < 25 {
			t.Errorf("the other listener heard %d", n)
		}
	})
}

func exactKey(key string) dynamicconfig.Rule {
	r := exact(10)
	r.Key = key
	return r
}

func TestListenersHearOfFallbacks(t *testing.T) {
	r := weighted(100)
	r.IdleAfter = time.Hour
	var e ear
	g := NewGroup(snapshot(t, r), 1, WithListener(e.hear))
	k := g.For("k")
	allowAt(k, 0, 1)
	kinds := func() (got []EventKind) {
		drain(g)
		for _, event := range e.heard {
			if event.Kind >= EventFallbackEntered {
				got = append(got, event.Kind)
			}
		}
		e.heard = nil
		return got
	}
	apply := func(now stage.Instant) {
		allowAt(k, now, 1)
		if err := g.Manual().Apply(now, g.Manual().Report(now)[0], nil, grantOf(1, 10, time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	apply(second)
	if got := kinds(); got != nil {
		t.Errorf("a first grant: %v", got)
	}
	allowAt(k, 5*second, 1)
	g.Manual().Report(5 * second)
	if got := kinds(); !slices.Equal(got, []EventKind{EventFallbackEntered}) {
		t.Errorf("a lease that ends: %v", got)
	}
	apply(6 * second)
	if got := kinds(); !slices.Equal(got, []EventKind{EventFallbackLeft}) {
		t.Errorf("a grant again: %v", got)
	}
}

// A lease may have ended when the hosts or the rules change, before a report finds that. Listeners hear
// of that fallback, too.
func TestListenersHearOfALeaseThatEndsBeforeAChange(t *testing.T) {
	rule := weighted(100)
	rule.IdleAfter = time.Hour
	rules := snapshot(t, rule)
	for name, change := range map[string]func(g *Group, now stage.Instant){
		"hosts": func(g *Group, now stage.Instant) { g.keys().SetHosts(now, 2) },
		"rules": func(g *Group, now stage.Instant) { g.Manual().Configure(now, rules) },
	} {
		var heard ear
		g := NewGroup(rules, 1, WithListener(heard.hear))
		k, now := g.For("k"), second
		allowAt(k, now, 1)
		now += second
		granted(t, g, now, g.Manual().Report(now), 1, 10)
		now += 120 * second
		change(g, now)
		allowAt(k, now, 1)
		granted(t, g, now, g.Manual().Report(now), 1, 10)
		var got []EventKind
		drain(g)
		for _, event := range heard.heard {
			if event.Kind >= EventFallbackEntered {
				got = append(got, event.Kind)
			}
		}
		if !slices.Equal(got, []EventKind{EventFallbackEntered, EventFallbackLeft}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An answer to a report that was overtaken brings no grant into force, so the key stays in its fallback.
func TestAKeyLeavesItsFallbackOnce(t *testing.T) {
	rule := weighted(100)
	rule.IdleAfter = time.Hour
	var heard ear
	g := NewGroup(snapshot(t, rule), 1, WithListener(heard.hear), reportsEarly)
	k, now := g.For("k"), second
	report := func() []*report.Batch {
		allowAt(k, now, 1)
		now += 2 * second
		return g.Manual().Report(now)
	}
	granted(t, g, now, report(), 1, 10)
	now += 120 * second
	first, second := report(), report()
	for i, want := range [][]EventKind{{EventFallbackEntered}, nil, {EventFallbackLeft}} {
		if i > 0 {
			granted(t, g, now, [][]*batch{first, second}[i-1], 1, 10)
		}
		var got []EventKind
		drain(g)
		for _, event := range heard.heard {
			if event.Kind >= EventFallbackEntered {
				got = append(got, event.Kind)
			}
		}
		heard.heard = nil
		if !slices.Equal(got, want) {
			t.Errorf("after %d answers: %v, want %v", i, got, want)
		}
	}
}

// Listeners hear no more of the fallback of a key that was removed, or whose rule has changed: the
// key has it no more.
func TestAKeyDoesNotLeaveItsFallbackOnceItIsGone(t *testing.T) {
	for _, of := range []string{"a lease", "a remote bucket"} {
		for _, ends := range []string{"removed", "ruled otherwise"} {
			t.Run(of+", "+ends, func(t *testing.T) { testLeavesNoMore(t, of == "a lease", ends == "removed") })
		}
	}
}

func testLeavesNoMore(t *testing.T, lease, removed bool) {
	var now stage.Instant
	var heard ear
	away := newElsewhere(func() stage.Instant { return now })
	rule := exact(10)
	if lease {
		rule = weighted(10)
	}
	rule.IdleAfter = 10 * time.Second
	g := NewGroup(snapshot(t, rule), 1, WithRemote("exact", away), WithBackground(func(f func()) { f() }), WithListener(heard.hear))
	k := g.For("k")
	take(k, now, 1)
	fails := func() []*report.Batch { // the result has no answer yet
		if !lease {
			away.err = errors.New("away")
			take(k, now, 1)
			return nil
		}
		now += second
		granted(t, g, now, g.Manual().Report(now), 1, 10)
		now += 120 * second
		take(k, now, 1)
		return g.Manual().Report(now)
	}()
	if removed {
		for range 20 {
			now += second
			g.Manual().Report(now)
		}
	} else {
		other := alone(10, 10)
		g.Manual().Configure(now, snapshot(t, other))
	}
	away.err = nil
	if lease {
		granted(t, g, now, fails, 1, 10)
	} else {
		g.keys().Flush()
	}
	var got []EventKind
	drain(g)
	for _, event := range heard.heard {
		if event.Kind >= EventCreated {
			got = append(got, event.Kind)
		}
	}
	want := []EventKind{EventCreated, EventFallbackEntered}
	if removed {
		want = append(want, EventRemoved)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Under auto, a host whose lease has ended asks the key's owner. Its fallback decides only if the
// owner does not answer, and until the host has a grant again.
func TestListenersHearOfFallbacksUnderAuto(t *testing.T) {
	var now stage.Instant
	var heard ear
	away := newElsewhere(func() stage.Instant { return now })
	g := NewGroup(snapshot(t, autoRule(10)), 10, WithRemote(Auto, away), WithSeed(1), WithBackground(func(f func()) { f() }), WithListener(heard.hear))
	k := g.For("k")
	expect := func(what string, fallback bool, want ...EventKind) {
		t.Helper()
		var got []EventKind
		drain(g)
		for _, event := range heard.heard {
			if event.Kind >= EventFallbackEntered {
				got = append(got, event.Kind)
			}
		}
		heard.heard = nil
		if of := only(t, g, now, "k"); !slices.Equal(got, want) || of.Fallback != fallback {
			t.Errorf("%s: %v, want %v; fallback %v, want %v", what, got, want, of.Fallback, fallback)
		}
	}
	grant := func() {
		now += second
		granted(t, g, now, g.Manual().Report(now), 0.5, 5)
	}
	take(k, now, 5)
	grant()
	expect("a first grant", false)
	now += 120 * second
	g.Manual().Report(now)
	expect("a lease that ends", false)
	away.err = errors.New("away")
	take(k, now, 5)
	expect("an ask without an answer", true, EventFallbackEntered)
	grant()
	expect("a grant again", false, EventFallbackLeft)
	away.err = nil
	now += 11 * second
	g.Manual().Report(now) // the owner is charged with what the fallback let through
	now += 120 * second
	g.Manual().Report(now)
	expect("the next lease that ends", false)
	take(k, now, 5)
	expect("an ask with an answer", false)
}

// Events that nobody takes in are dropped, and the metric says how many.
func TestEventsThatAreDroppedAreCounted(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	g := NewGroup(snapshot(t, alone(1e9, 1e9)), 1, WithScope(scope), WithListener(func([]Event) {}))
	take(g.For("k"), 0, 20_000)
	drain(g)
	if got := scope.Snapshot().Counters()["limiter.events_dropped+"].Value(); got < 20_001-8192 || got > 20_001 {
		t.Errorf("%d are dropped of 20,001, of which 8192 fit", got)
	}
}

func TestEventKindsHaveNames(t *testing.T) {
	for k := EventServed; k <= EventFallbackLeft; k++ {
		if k.String() == "" || k.String()[0] == 'e' {
			t.Errorf("kind %d is %q", k, k)
		}
	}
	if got := EventKind(99).String(); got != "event(99)" {
		t.Error(got)
	}
}

func TestTellingAllocatesNothing(t *testing.T) {
	k := NewGroup(snapshot(t, alone(1e9, 1e9)), 1, WithListener(func([]Event) {})).For("k")
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { k.Allow(); k.Decide(ctx, 2, 0) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkListener(b *testing.B) {
	for _, listeners := range []int{0, 1, 3} {
		b.Run(fmt.Sprint(listeners), func(b *testing.B) {
			var heard atomic.Int64
			var options []Option
			for range listeners {
				options = append(options, WithListener(func(e []Event) { heard.Add(int64(len(e))) }))
			}
			g := NewGroup(snapshot(b, alone(1e12, 1e9)), 1, options...)
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan struct{})
			go func() {
				g.Run(ctx, idle{})
				close(ended)
			}()
			k := g.For("k")
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				k.Allow()
				n++
			}
			b.StopTimer()
			stop()
			<-ended
			if listeners > 0 {
				b.ReportMetric(float64(heard.Load())/float64(n)/float64(listeners), "heard")
			}
		})
	}
}
