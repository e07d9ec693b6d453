// SPDX-License-Identifier: Apache-2.0

package limiter_test

import (
	"context"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/shadow"
)

// A remote bucket that begins to answer is charged with what was used before. That was
// counted already.
func TestMetricsCountWhatARemoteBucketMissedOnce(t *testing.T) {
	for _, to := range []string{"exact", "auto"} {
		rule := dynamicconfig.Rule{Key: "k", Limit: 10, Burst: 10, Migration: &dynamicconfig.Migration{From: "even", To: to, Mode: dynamicconfig.ModeOld}}
		config := func(mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
			r, m := rule, *rule.Migration
			m.Mode, r.Migration = mode, &m
			s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{r}}.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		now, scope := stage.Now(), tally.NewTestScope("", nil)
		remote := &drained{left: 50}
		g := limiter.NewGroup(config(dynamicconfig.ModeOld), 1, limiter.WithRemote(to, remote), limiter.WithScope(scope),
			limiter.WithMigration(shadow.Migrator()), driver.WithBackground(func(f func()) { f() }))
		for range 5 {
			g.For("k").Stage().Take(t.Context(), stage.Request{Now: now, N: 1, Kind: stage.Final})
		}
		driver.Of(g).Configure(now, config(dynamicconfig.ModeNew))
		if remote.left > 45 {
			t.Fatalf("%s: %v tokens are left of 50, and 5 were used before", to, remote.left)
		}
		driver.Of(g).Report(now.Add(time.Second))
		if c := scope.Snapshot().Counters()["limiter.allowed+rule=k"]; c == nil || c.Value() != 5 {
			t.Errorf("%s: 5 events are allowed, and the metric has %v", to, c.Value())
		}
	}
}

// What callers give back of what a remote bucket gave goes to that bucket. A report under the
// algorithm that came after it says what was used then, and not less by as much.
func TestWhatARemoteBucketGetsBackIsInNoReport(t *testing.T) {
	config := func(algorithm string) *dynamicconfig.Snapshot {
		s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{Key: "k", Limit: 1e-6, Burst: 20, Algorithm: algorithm}}}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, from := range []string{"exact", "redis"} {
		for _, to := range []string{"elastic", "request-weighted"} {
			now, scope, remote := stage.Now(), tally.NewTestScope("", nil), &drained{left: 20}
			g := limiter.NewGroup(config(from), 1, limiter.WithRemote(from, remote), limiter.WithScope(scope), driver.WithBackground(func(f func()) { f() }))
			k := g.For("k").Stage()
			_, receipt := k.Take(t.Context(), stage.Request{Now: now, N: 10})
			driver.Of(g).Configure(now, config(to))
			if v, _ := k.Take(t.Context(), stage.Request{Now: now, N: 7}); !v.OK() {
				t.Fatalf("%s to %s: %+v", from, to, v)
			}
			k.Settle(now, receipt, 4)
			said := driver.Of(g).Report(now.Add(time.Minute))
			if len(said) != 1 || said[0].Usage.Allowed[0] < 7 || remote.left != 16 {
				t.Errorf("%s to %s: 7 were used, and the report is %+v; the remote bucket has %v of 20, and 4 were used of it", from, to, said[0].Usage, remote.left)
			}
			if c := scope.Snapshot().Counters()["limiter.allowed+rule=k"]; c == nil || c.Value() != 11 {
				t.Errorf("%s to %s: 11 tokens are allowed, and the metric has %v", from, to, c.Value())
			}
		}
	}
}

// Nobody gets a token twice that was given back after a change of rule.
func TestWhatComesBackAfterAChangeOfRuleComesBackOnce(t *testing.T) {
	const burst = 20
	rapid.Check(t, func(rt *rapid.T) {
		algorithms := pick(rt, "algorithms", []string{"exact", "auto", "elastic"}, []string{"exact", "auto", "even"}, []string{"redis", "exact"},
			[]string{"even", "redis"}, []string{"even", "elastic"}, []string{"even", "exact"})
		of := &owner{pools: make(map[string]*pool), full: burst}
		config := func() *dynamicconfig.Snapshot {
			r := dynamicconfig.Rule{Key: pick(rt, "key", "k", "k", "k", "other"), Limit: 1e-6, Burst: burst, Algorithm: pick(rt, "algorithm", algorithms...)}
			of.configure(r)
			s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{r}, Unmatched: dynamicconfig.UnmatchedDeny}.Snapshot()
			if err != nil {
				rt.Fatal(err)
			}
			return s
		}
		now := stage.Now()
		g := limiter.NewGroup(config(), 1, limiter.WithRemote("redis", &drained{left: burst}), limiter.WithRemote("exact", asked{of, "exact"}),
			limiter.WithRemote("auto", asked{of, "auto"}), driver.WithSeed(1), driver.WithBackground(func(f func()) { f() }))
		k, used := g.For("k").Stage(), int64(0)
		var held []stage.Receipt
		for range rapid.IntRange(1, 5).Draw(rt, "changes") {
			for range rapid.IntRange(0, 5).Draw(rt, "events") {
				n := pick(rt, "cost", int64(5), 10, 1)
				if v, receipt := k.Take(rt.Context(), stage.Request{Now: now, N: n}); v.OK() {
					used += n
					held = append(held, receipt)
				}
			}
			if used > burst {
				rt.Fatalf("%d of a burst of %d", used, burst)
			}
			for len(held) > 0 && rapid.Bool().Draw(rt, "gives back") {
				k.Settle(now, held[0], 0)
				used -= held[0].N
				held = held[1:]
			}
			if now = now.Add(pick(rt, "time", time.Millisecond, 10*time.Second)); rapid.Bool().Draw(rt, "reports") {
				of.answer(rt, g, now, int(used))
			}
			driver.Of(g).Configure(now, config())
		}
	})
}

// reloading is slots during whose first acquisition the rules change.
type reloading struct {
	stage.SlotsMigration
	reload func()
}

func (r *reloading) change() {
	if reload := r.reload; reload != nil {
		r.reload = nil
		reload()
	}
}

func (r *reloading) TryAcquire(now stage.Instant, n int64) (stage.Hold, error) {
	r.change()
	return r.SlotsMigration.TryAcquire(now, n)
}

func (r *reloading) Acquire(ctx context.Context, n, priority int64) (stage.Hold, error) {
	r.change()
	return r.SlotsMigration.Acquire(ctx, n, priority)
}

// A caller that finds that other slots decide by now asks those, and is counted once.
func TestSlotsCountOnceThroughAReload(t *testing.T) {
	config := func(mode dynamicconfig.Mode) *dynamicconfig.Snapshot {
		s, err := dynamicconfig.Config{Rules: []dynamicconfig.Rule{{
			Key: "k", Limit: 10, InFlight: true, Lease: time.Minute, Migration: &dynamicconfig.Migration{From: "even", To: "fair-share", Mode: mode},
		}}}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, acquire := range map[string]func(*limiter.Limiter) error{
		"TryAcquire": func(l *limiter.Limiter) error { l.TryAcquire(2); return nil },
		"Acquire":    func(l *limiter.Limiter) error { _, err := l.Acquire(t.Context(), 2); return err },
	} {
		for _, modes := range [][2]dynamicconfig.Mode{
			{dynamicconfig.ModeOld, dynamicconfig.ModeNew}, {dynamicconfig.ModeNewShadowOld, dynamicconfig.ModeOldShadowNew},
		} {
			now, scope, slots := stage.Now(), tally.NewTestScope("", nil), new(reloading)
			migrator := shadow.Migrator()
			pair := migrator.Slots
			migrator.Slots = func(old, next stage.Slots, mode dynamicconfig.Mode) stage.SlotsMigration {
				slots.SlotsMigration = pair(old, next, mode)
				return slots
			}
			g := limiter.NewGroup(config(modes[0]), 1, limiter.WithScope(scope), limiter.WithMigration(migrator))
			slots.reload = func() { driver.Of(g).Configure(now, config(modes[1])) }
			if err := acquire(g.For("k")); err != nil {
				t.Fatal(err)
			}
			driver.Of(g).Report(now.Add(time.Second))
			if c := scope.Snapshot().Counters()["limiter.allowed+rule=k"]; c == nil || c.Value() != 2 {
				t.Errorf("%s, %v: 2 slots are taken, and the metric has %+v", name, modes, c)
			}
		}
	}
}
