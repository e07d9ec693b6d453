// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/internal/waittest"
)

func TestMain(m *testing.M) {
	testrun.OnlyComputes()
	waittest.Main(m)
}

func limited(t testing.TB, limit rate.Limit) *Snapshot {
	return mustSnapshot(t, Config{Name: fmt.Sprintf("limit %v", limit), Rules: []Rule{{Key: "a", Limit: limit}}})
}

func TestLiveWithoutAConfigAllowsAll(t *testing.T) {
	l := NewLive(nil)
	if _, ok := l.Current().Match("a"); ok || l.Current().Unmatched() != UnmatchedAllow || l.LastError() != nil {
		t.Errorf("current = %+v, %v", l.Current(), l.LastError())
	}
}

func TestSetTellsSubscribersInOrder(t *testing.T) {
	one, two, three := limited(t, 1), limited(t, 2), limited(t, 3)
	l := NewLive(one)
	var told []string
	cancel := l.Subscribe(func(old, new *Snapshot) {
		told = append(told, old.Name()+" -> "+new.Name())
		if new == two {
			// A Set from within is told after this, not inside it.
			if err := l.Set(three); err != nil {
				t.Error(err)
			}
			told = append(told, "set")
		}
	})
	if err := l.Set(two); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(told, "; "), "limit 1 -> limit 2; set; limit 2 -> limit 3"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	cancel()
	cancel()
	if err := l.Set(one); err != nil || len(told) != 3 {
		t.Errorf("told after cancel: %v, %v", told, err)
	}
	if l.Current() != one || l.Applied() != 3 || l.Rejected() != 0 {
		t.Errorf("current %s, applied %d, rejected %d", l.Current().Name(), l.Applied(), l.Rejected())
	}
}

func TestSetOfTheSameMeaningChangesNothing(t *testing.T) {
	l := NewLive(limited(t, 1))
	l.Subscribe(func(_, _ *Snapshot) { t.Error("told of no change") })
	before := l.Current()
	if err := l.Set(limited(t, 1)); err != nil || l.Current() != before || l.Applied() != 0 {
		t.Errorf("Set = %v, applied %d", err, l.Applied())
	}
}

func TestBrokenNeverReplacesGood(t *testing.T) {
	refused := errors.New("refused")
	bad := limited(t, 13)
	l := NewLive(limited(t, 1), WithCheck(func(s *Snapshot) error {
		if s == bad {
			return refused
		}
		return nil
	}), WithCheck(nil))
	good := l.Current()
	for i, s := range []*Snapshot{bad, nil} {
		if err := l.Set(s); err == nil || l.Current() != good || l.Rejected() != int64(i+1) || !errors.Is(l.LastError(), err) {
			t.Errorf("Set = %v, rejected %d, last error %v", err, l.Rejected(), l.LastError())
		}
	}
	if err := l.Set(limited(t, 1)); err != nil || l.LastError() != nil {
		t.Errorf("the error stays after a good one: %v, %v", err, l.LastError())
	}
}

func TestALiveKnowsWhenItsConfigCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := NewLive(limited(t, 1)), time.Now()
		// at is what l says, in seconds since it began; -1 for never.
		at := func(when time.Time) int {
			if when.IsZero() {
				return -1
			}
			return int(when.Sub(began).Seconds())
		}
		for i, row := range []struct {
			set             *Snapshot
			since, rejected int
		}{{limited(t, 1), 0, -1}, {limited(t, 2), 2, -1}, {nil, 2, 3}, {limited(t, 2), 2, 3}, {limited(t, 1), 5, 3}} {
			time.Sleep(time.Second)
			if err := l.Set(row.set); (err != nil) != (row.set == nil) {
				t.Errorf("row %d: %v", i, err)
			}
			if since, rejected := at(l.Since()), at(l.RejectedAt()); since != row.since || rejected != row.rejected {
				t.Errorf("row %d: since %d, rejected at %d; want %d and %d", i, since, rejected, row.since, row.rejected)
			}
		}
	})
}

// The code of a subscriber ends neither the process nor what others are told.
func TestASubscriberThatPanicsIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, log := NewLive(limited(t, 1)), new(strings.Builder)
		var told []string
		l.Subscribe(func(_, _ *Snapshot) { panic("on purpose") })
		l.Subscribe(func(_, new *Snapshot) { told = append(told, new.Name()) })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go l.Run(ctx, silent{limited(t, 2)}, slog.New(slog.NewTextHandler(log, nil)))
		synctest.Wait()
		if err := l.Set(limited(t, 3)); err != nil {
			t.Error(err)
		}
		if got := strings.Join(told, ", "); got != "limit 2, limit 3" || strings.Count(log.String(), "a subscriber panicked") != 2 {
			t.Errorf("told %q; logged %s", got, log)
		}
	})
}

func TestLiveIsSafeForConcurrentUse(t *testing.T) {
	l := NewLive(limited(t, 1))
	p := Int(l, "n", 0)
	var wg sync.WaitGroup
	var mu sync.Mutex
	last := l.Current()
	l.Subscribe(func(old, new *Snapshot) {
		mu.Lock()
		defer mu.Unlock()
		if old != last {
			t.Errorf("a change was told out of order: %s -> %s after %s", old.Name(), new.Name(), last.Name())
		}
		last = new
	})
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				s := mustSnapshot(t, Config{Name: fmt.Sprint(g, i), Rules: []Rule{{Key: "a", Limit: rate.Limit(g*1000 + i + 2)}}, Values: map[string]any{"n": i}})
				if err := l.Set(s); err != nil {
					t.Error(err)
				}
				l.Subscribe(func(_, _ *Snapshot) {})()
				l.Current().Match("a")
				p.Get()
				_ = l.LastError()
			}
		})
	}
	wg.Wait()
	if last != l.Current() || l.Applied() != 800 {
		t.Errorf("last told %s, current %s, applied %d", last.Name(), l.Current().Name(), l.Applied())
	}
}

// scripted is a Source whose Watch does what each call of it is given.
type scripted struct {
	load    func() (*Snapshot, error)
	watches []func(ctx context.Context, update func(*Snapshot, error)) error
}

func (s *scripted) Load(context.Context) (*Snapshot, error) { return s.load() }

func (s *scripted) Watch(ctx context.Context, update func(*Snapshot, error)) error {
	if len(s.watches) == 0 {
		<-ctx.Done()
		return nil
	}
	w := s.watches[0]
	s.watches = s.watches[1:]
	return w(ctx, update)
}

func TestRunKeepsTheLastGoodAndLogsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		var mu sync.Mutex
		logger := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(p)
		}), nil))
		l := NewLive(limited(t, 1))
		broken, gone := errors.New("broken"), errors.New("gone")
		steps := make(chan func(update func(*Snapshot, error)))
		source := &scripted{
			load: func() (*Snapshot, error) { return limited(t, 2), nil },
			watches: []func(context.Context, func(*Snapshot, error)) error{
				func(ctx context.Context, update func(*Snapshot, error)) error {
					for step := range steps {
						step(update)
					}
					return gone
				},
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); l.Run(ctx, source, logger) }()
		synctest.Wait()
		if r, _ := l.Current().Match("a"); r.Limit != 2 {
			t.Errorf("after Load: %+v", r)
		}
		step := func(s *Snapshot, err error) {
			steps <- func(update func(*Snapshot, error)) { update(s, err) }
			synctest.Wait()
		}
		step(nil, broken)
		step(nil, broken)
		step(nil, broken)
		if r, _ := l.Current().Match("a"); r.Limit != 2 || !errors.Is(l.LastError(), broken) || l.Rejected() != 3 {
			t.Errorf("rule %+v, last error %v, rejected %d", r, l.LastError(), l.Rejected())
		}
		if n := strings.Count(log.String(), "broken"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &log)
		}
		step(limited(t, 3), nil)
		step(nil, broken) // after a good one it is news again
		if n := strings.Count(log.String(), "broken"); n != 2 {
			t.Errorf("logged %d times:\n%s", n, &log)
		}
		for range 2 { // whoever put the file back as it was learns that this helped, once
			step(limited(t, 3), nil)
		}
		if n := strings.Count(log.String(), "config is valid again"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, &log)
		}
		close(steps) // the watch ends; Run begins again after a while
		synctest.Wait()
		if r, _ := l.Current().Match("a"); r.Limit != 3 || !errors.Is(l.LastError(), gone) {
			t.Errorf("rule %+v, last error %v", r, l.LastError())
		}
		time.Sleep(minRetry) // virtual
		synctest.Wait()
		if r, _ := l.Current().Match("a"); r.Limit != 2 || l.LastError() != nil {
			t.Errorf("after the retry: rule %+v, last error %v", r, l.LastError())
		}
		cancel()
		<-done
	})
}

// Nobody need run `headgate limits check`: what it warns of is in the log of each process too, for
// the first limits and for each that change something, once.
func TestRunWarnsOfWhatIsSurelyNotMeant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := mustParse(t, `
limits:
  - {key: "a:*", limit: 10/s}
  - {key: "a:b:*", limit: 1/s}
overrides:
  - {key: "b", limit: 2x, until: 2099-11-23T05:00:00Z, author: ada, reason: its rule is gone}
`)
		many := Config{Rules: []Rule{{Key: "a:*", Limit: 1}}}
		for i := range maxChangesShown + 2 {
			many.Rules = append(many.Rules, Rule{Key: fmt.Sprintf("a:%d:*", i), Limit: 1})
		}
		var log strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		NewLive(first).Run(ctx, &scripted{
			load: func() (*Snapshot, error) { return first, nil },
			watches: []func(context.Context, func(*Snapshot, error)) error{func(_ context.Context, update func(*Snapshot, error)) error {
				update(first, nil)
				update(mustSnapshot(t, many), nil)
				cancel()
				return nil
			}},
		}, slog.New(slog.NewTextHandler(&log, nil)))
		for text, times := range map[string]int{
			`rule \"a:b:*\" is never used`: 1,
			`an override changes nothing`:  1,
			`is never used`:                1 + maxChangesShown,
			`more likely mistakes in the limits; headgate limits check names all" more=2`: 1,
		} {
			if n := strings.Count(log.String(), text); n != times {
				t.Errorf("%q is logged %d times, want %d:\n%s", text, n, times, &log)
			}
		}
	})
}

func TestRunRetriesASourceEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		began := time.Now()
		source := &scripted{load: func() (*Snapshot, error) {
			at = append(at, time.Since(began))
			return nil, errors.New("no")
		}}
		for range 100 {
			source.watches = append(source.watches, func(context.Context, func(*Snapshot, error)) error { return nil })
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		l := NewLive(nil)
		l.Run(ctx, source, nil)
		if got, want := fmt.Sprint(at), "[0s 1s 3s 7s 15s 31s 1m1s 1m31s]"; got != want {
			t.Errorf("loaded at %v, want %v", got, want)
		}
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestPropertiesFollowAndKeepTheirType(t *testing.T) {
	const good = `properties: {d: 250ms, i: 100, f: 0.5, b: true, s: "x", e: 1e3}`
	l := NewLive(mustParse(t, good))
	d, i, f := Duration(l, "d", time.Second), Int(l, "i", 1), Float(l, "f", 1)
	b, s, e, none := Bool(l, "b", false), String(l, "s", ""), Int(l, "e", 0), Int(l, "none", 7)
	values := func() string {
		return fmt.Sprint(d.Get(), i.Get(), f.Get(), b.Get(), " ", s.Get(), " ", e.Get(), none.Get())
	}
	if got, want := values(), "250ms 100 0.5 true x 1000 7"; got != want {
		t.Errorf("values = %s, want %s", got, want)
	}
	err := l.Set(mustParse(t, `properties: {d: 1, i: 1.5, f: true, b: "true", s: 5, none: 8}`))
	const want = `limits.yaml:1:17: properties: d: 1 is not a duration, as in 500ms, 3s or 2d
    1 | properties: {d: 1, i: 1.5, f: true, b: "true", s: 5, none: 8}
      |                 ^`
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Count(err.Error(), "^") != 5 {
		t.Errorf("Set = %v", err)
	}
	if got, want := values(), "250ms 100 0.5 true x 1000 7"; got != want {
		t.Errorf("values after a broken one = %s, want %s", got, want)
	}
	if err := l.Set(mustParse(t, `properties: {i: 5, f: 2}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := values(), "1s 5 2 false  0 7"; got != want {
		t.Errorf("values = %s, want %s", got, want)
	}
}

func TestAWrongTypeAtTheStartIsTheDefault(t *testing.T) {
	l := NewLive(mustSnapshot(t, Config{Values: map[string]any{"i": "many", "d": time.Minute}}))
	if got := Int(l, "i", 3).Get(); got != 3 || l.LastError() == nil {
		t.Errorf("value %d, last error %v", got, l.LastError())
	}
	if d := Duration(l, "d", 0); d.Get() != time.Minute || d.Name() != "d" {
		t.Errorf("%s = %v", d.Name(), d.Get())
	}
}

func BenchmarkPropertyGet(b *testing.B) {
	p := Duration(NewLive(nil), "d", time.Second)
	b.ReportAllocs()
	for b.Loop() {
		if p.Get() != time.Second {
			b.Fatal("wrong")
		}
	}
}
