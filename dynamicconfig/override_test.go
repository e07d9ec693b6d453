// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig/rule"
)

// three is 3 a.m. of the night that these tests are about.
var three = time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)

func TestAnOverrideIsPartOfItsRuleUntilItEnds(t *testing.T) {
	s := mustParse(t, `
limits:
  - {key: "frontend:orders", limit: 100/s, burst: 300, fallback: safe, safe_capacity: 4/s, max_cost: 200}
  - {key: "frontend:*", limit: 10/s, migrate: {from: even, to: auto, mode: old-shadow-new}, enforce: 20%}
  - {key: "batch:*", limit: 50/s, shared: true}
  - {key: "jobs", limit: 9 in-flight}
  - {key: "closed", limit: 0/s}
  - {key: 'odd\*', limit: 1/s}
unmatched: {limit: 7/s}
overrides:
  - {key: "frontend:orders", limit: 0.5x, until: 2026-11-23T05:00:00Z, author: ada, reason: the database is slow}
  - {key: "frontend:*", limit: 2x, until: 2026-11-23T04:00:00Z, author: ada, reason: the sale}
  - {key: "frontend:new", limit: 5/s, until: 2026-11-23T04:30:00+00:30, author: bob, reason: a test}
  - {key: "batch:mail", limit: bypass, until: 2026-11-23T05:00:00Z, author: ada, reason: mail is late}
  - {key: "batch:*", limit: 0/s, until: 2026-11-23T05:00:00Z, author: ada, reason: nothing else}
  - {key: "jobs", limit: 0.05x, until: 2026-11-23T05:00:00Z, author: ada, reason: few}
  - {key: "closed", limit: 30/s, until: 2026-11-23T05:00:00Z, author: ada, reason: open it}
  - {key: 'odd\*', limit: 3x, until: 2026-11-23T05:00:00Z, author: ada, reason: odd}
  - {key: "*", limit: 8/s, until: 2026-11-23T05:00:00Z, author: ada, reason: the rest}
`)
	at := s.At(three)
	for _, tt := range []struct {
		key, limit string
		burst      float64
		by         string // what the override says
	}{
		{"frontend:orders", "50/s", 150, "0.5x until 2026-11-23T05:00:00Z by ada: the database is slow"},
		{"frontend:cart", "20/s", 20, "2x until 2026-11-23T04:00:00Z by ada: the sale"},
		{"frontend:new", "5/s", 5, "5/s until 2026-11-23T04:00:00Z by bob: a test"},
		{"batch:mail", "50/s", 50, "bypass until 2026-11-23T05:00:00Z by ada: mail is late"},
		{"batch:all", "0/s", 0, "0/s until 2026-11-23T05:00:00Z by ada: nothing else"},
		{"jobs", "1 in-flight", 0, "0.05x until 2026-11-23T05:00:00Z by ada: few"},
		{"closed", "30/s", 30, "30/s until 2026-11-23T05:00:00Z by ada: open it"},
		{"odd*", "3/s", 3, "3x until 2026-11-23T05:00:00Z by ada: odd"},
		{"other", "8/s", 8, "8/s until 2026-11-23T05:00:00Z by ada: the rest"},
	} {
		r, _ := at.Match(tt.key)
		if r.Amount() != tt.limit || r.Burst != tt.burst || r.Override.String() != tt.by {
			t.Errorf("%s: %s with burst %v, %v; want %s, %v, %s", tt.key, r.Amount(), r.Burst, r.Override, tt.limit, tt.burst, tt.by)
		}
		if again, _ := at.Match(tt.key); again != r {
			t.Errorf("%s: another rule at each look", tt.key)
		}
	}
	r, _ := at.Match("frontend:orders")
	if r.SafeCapacity != 2 || r.MaxCost != 100 {
		t.Errorf("safe capacity %v and cost %v do not follow the limit", r.SafeCapacity, r.MaxCost)
	}
	if r, _ := at.Match("frontend:new"); r.Key != "frontend:*" || r.Migration == nil || r.Enforce != 0.2 {
		t.Errorf("one key of a rule has lost what the rule says: %+v", r)
	}
	if r, _ := at.Match("batch:mail"); !r.Bypassed() || r.Shared {
		t.Errorf("one key of a shared rule is not bypassed by itself: %+v", r)
	}
	if version := at.Version(); version != s.Version() || at.Stated() != s || !bytes.Equal(at.YAML(), s.YAML()) {
		t.Error("an override that holds changes what the configuration states")
	}
	// At four, two have ended, and the key goes by its rule again.
	at = s.At(three.Add(time.Hour))
	for _, key := range []string{"frontend:cart", "frontend:new"} {
		r, _ := at.Match(key)
		if before, _ := s.Match(key); r != before || r.Limit != 10 || r.Override != nil {
			t.Errorf("%s: %+v after the end", key, r)
		}
	}
	if r, _ := at.Match("jobs"); r.Override == nil {
		t.Error("another override has ended too")
	}
	if s.At(three.Add(2*time.Hour)) != s || at.At(three.Add(2*time.Hour)) != s {
		t.Error("after the last end, it is not what was stated")
	}
}

func TestAnOverrideWithoutEffectIsNoMistake(t *testing.T) {
	s := mustParse(t, `
limits:
  - {key: "a:*", limit: 1/s}
  - {key: "s:*", limit: 1/s, shared: true}
  - {key: "n", limit: 3 in-flight}
  - {key: "z", limit: 0/s}
unmatched: deny
overrides:
  - {key: "b", limit: 2x, until: 2026-11-23T05:00:00Z, author: ada, reason: its rule is gone}
  - {key: "a:b*", limit: 2x, until: 2026-11-23T05:00:00Z, author: ada, reason: no such pattern}
  - {key: "s:1", limit: 2x, until: 2026-11-23T05:00:00Z, author: ada, reason: one of a shared bucket}
  - {key: "n", limit: 5/s, until: 2026-11-23T05:00:00Z, author: ada, reason: another unit}
  - {key: "z", limit: 2x, until: 2026-11-23T05:00:00Z, author: ada, reason: two times nothing}
  - {key: "a:1", limit: 2x, until: 2026-11-23T01:00:00Z, author: ada, reason: over}
  - {key: "a:2", limit: 2x, until: 2026-11-23T05:00:00Z, author: ada, reason: holds}
`)
	want := []string{"no rule matches this key", "no rule has this pattern", "have one bucket", "counts events/s, and the limit counts slots", "stays 0", "", ""}
	for i, state := range s.At(three).OverrideStates(three) {
		if !strings.Contains(state.Idle, want[i]) || (state.Idle == "") != (want[i] == "") {
			t.Errorf("%s: %q, want %q", state.Key, state.Idle, want[i])
		}
		if state.Ended != (state.Key == "a:1") {
			t.Errorf("%s: ended is %v", state.Key, state.Ended)
		}
	}
	at := s.At(three)
	for _, key := range []string{"s:1", "n", "z", "a:1"} {
		if r, _ := at.Match(key); r.Override != nil {
			t.Errorf("%s is overridden: %v", key, r.Override)
		}
	}
	if _, ok := at.Match("b"); ok {
		t.Error("a key without a rule has one")
	}
	if r, _ := at.Match("a:2"); r.Limit != 2 {
		t.Errorf("one that holds beside them: %+v", r)
	}
}

// naive finds what is in force for a key by looking at everything.
func naive(c *Config, key string, now time.Time) (limit rate.Limit, bypass bool, by string) {
	rule := -1
	for i, r := range c.Rules {
		if g, _ := CompileGlob(r.Key); !r.IsGlob() && r.Key == key {
			rule = i
			break
		} else if rule < 0 && g.Match(key) {
			rule = i
		}
	}
	for i := range c.Rules { // an exact key wins
		if c.Rules[i].Key == key {
			rule = i
		}
	}
	if rule < 0 {
		return -1, false, ""
	}
	limit = c.Rules[rule].Limit
	for _, level := range []string{key, c.Rules[rule].Key, ""} {
		for _, o := range c.Overrides {
			if o.Key == level && o.Bypass && now.Before(o.Until) {
				return limit, true, o.Reason
			}
		}
		for _, o := range c.Overrides {
			if o.Key != level || o.Bypass || !now.Before(o.Until) {
				continue
			}
			switch {
			case o.Key == key && key != c.Rules[rule].Key && c.Rules[rule].Shared, o.Factor != 0 && limit == 0:
				continue // without effect
			case o.Factor != 0:
				return limit * rate.Limit(o.Factor), false, o.Reason
			}
			return o.Limit, false, o.Reason
		}
	}
	return limit, false, ""
}

func TestOverridesAreThoseOfANaiveModel(t *testing.T) {
	keys := []string{"a", "a:1", "a:2", "b:1", "c"}
	rapid.Check(t, func(t *rapid.T) {
		c := &Config{Unmatched: UnmatchedDeny}
		for _, pattern := range []string{"a", "a:1", "a:*", "b:*", "*"} {
			if rapid.Bool().Draw(t, "rule") {
				c.Rules = append(c.Rules, Rule{
					Key: pattern, Limit: rate.Limit(rapid.IntRange(0, 3).Draw(t, "limit")),
					Shared: strings.Contains(pattern, "*") && rapid.Bool().Draw(t, "shared"),
				})
			}
		}
		overridden := append([]string{"", "a:*", "b:*", "*"}, keys...)
		for i, key := range slices.Concat(overridden, overridden) {
			if !rapid.Bool().Draw(t, "override") {
				continue
			}
			o := Override{Key: key, All: key == "", Author: "ada", Reason: fmt.Sprint(i), Until: three.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "until")) * time.Hour)}
			switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
			case kind == 0:
				o.Bypass = true
			case kind == 1 || o.All:
				o.Factor = 2
			default:
				o.Limit = rate.Limit(rapid.IntRange(0, 9).Draw(t, "to"))
			}
			if !slices.ContainsFunc(c.Overrides, func(b Override) bool { return b.Key == key && b.Bypass == o.Bypass }) {
				c.Overrides = append(c.Overrides, o)
			}
		}
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse("again", s.YAML()); err != nil || again.Version() != s.Version() {
			t.Fatalf("what it writes is another configuration: %v\n%s", err, s.YAML())
		}
		at := s
		for hour := range 5 { // one from the other, as a host goes
			now := three.Add(time.Duration(hour) * time.Hour)
			at = at.At(now)
			for _, key := range keys {
				r, ok := at.Match(key)
				limit, bypass, by := naive(c, key, now)
				if ok != (limit >= 0) {
					t.Fatalf("hour %d, %s: a rule is %v", hour, key, ok)
				}
				if !ok {
					all := slices.ContainsFunc(c.Overrides, func(o Override) bool { return o.All && o.Bypass && now.Before(o.Until) })
					if (at.Unmatched() == UnmatchedAllow) != all {
						t.Fatalf("hour %d: keys without a rule: %v", hour, at.Unmatched())
					}
					continue
				}
				reason := ""
				if r.Override != nil {
					reason = r.Override.Reason
				}
				if reason != by || r.Bypassed() != bypass || !bypass && r.Limit != limit {
					t.Fatalf("hour %d, %s: %v by %q, bypass %v; want %v by %q, %v", hour, key, r.Limit, reason, r.Bypassed(), limit, by, bypass)
				}
			}
		}
		if at != s {
			t.Fatal("something is left after all have ended")
		}
	})
}

// An override never makes a rule that no file could have.
func TestAnOverriddenRuleIsValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rule{Key: "k", Limit: rate.Limit(rapid.Float64Range(1e-7, rule.MaxLimit).Draw(t, "limit")), InFlight: rapid.Bool().Draw(t, "slots")}
		if r.InFlight {
			r.Limit = rate.Limit(rapid.IntRange(0, rule.MaxSlots).Draw(t, "slots"))
		} else if rapid.Bool().Draw(t, "burst") {
			r.Burst = rapid.Float64Range(1, rule.LargestBurst(float64(r.Limit))).Draw(t, "burst")
			r.MaxCost = rapid.Float64Range(1, r.Burst).Draw(t, "cost")
		}
		if rapid.Bool().Draw(t, "safe") && r.Limit >= 1 {
			r.Fallback, r.SafeCapacity = FallbackSafe, 1
		}
		o := Override{Key: "k", Factor: rapid.Float64Range(rule.MinFactor, rule.MaxFactor).Draw(t, "factor"), Until: three, Author: "a", Reason: "r"}
		if rapid.Bool().Draw(t, "limit") {
			o.Factor, o.InFlight, o.Limit = 0, r.InFlight, rate.Limit(rapid.IntRange(0, rule.MaxSlots).Draw(t, "to"))
		}
		s, err := Config{Rules: []Rule{r}, Overrides: []Override{o}}.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		over := s.At(three.Add(-1)).Rules()[0]
		if over.SafeCapacity == 0 { // nothing is allowed, which a file writes otherwise
			over.Fallback = FallbackClosed
		}
		if _, err := (Config{Rules: []Rule{over}}).Snapshot(); err != nil {
			t.Fatalf("%+v under %v: %v", r, &o, err)
		}
	})
}

func TestLiveEndsAnOverrideWithoutItsSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log notes
		until := time.Now().Add(90 * time.Minute)
		c := Config{Rules: []Rule{{Key: "a", Limit: 10}, {Key: "b", Limit: 10}}}
		c.Overrides = []Override{
			{Key: "a", Factor: 2, Until: until, Author: "ada", Reason: "the sale"},
			{Key: "b", Bypass: true, Until: until.Add(time.Hour), Author: "ada", Reason: "b is wrong"},
		}
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		live := NewLive(s)
		limit := func(key string) rate.Limit { r, _ := live.Current().Match(key); return r.Limit }
		if limit("a") != 20 {
			t.Fatal("it does not hold from the beginning")
		}
		var told notes
		live.Subscribe(func(_, s *Snapshot) { r, _ := s.Match("a"); fmt.Fprint(&told, r.Limit, " ") })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			live.Run(ctx, silent{s}, slog.New(slog.NewTextHandler(&log, nil)))
		}()
		time.Sleep(time.Until(until) - time.Nanosecond)
		synctest.Wait()
		if limit("a") != 20 || told.String() != "" {
			t.Errorf("a moment before its end: %v, told %v", limit("a"), &told)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		b, _ := live.Current().Match("b")
		if limit("a") != 10 || told.String() != "10 " || !b.Bypassed() {
			t.Errorf("at its end: %v, told %v, and of the other %v", limit("a"), &told, b.Override)
		}
		if !strings.Contains(log.String(), "an override has ended") || !strings.Contains(log.String(), "the sale") || live.Applied() != 0 {
			t.Errorf("%d applied, and the log is %s", live.Applied(), &log)
		}
		// One that is prolonged ends later.
		c.Overrides[1].Until = until.Add(3 * time.Hour)
		longer, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if err := live.Set(longer); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if b, _ := live.Current().Match("b"); !b.Bypassed() {
			t.Error("an override that was prolonged has ended")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if live.Current() != longer {
			t.Error("the last override does not end")
		}
		cancel()
		<-done
	})
}

// notes are what several goroutines write.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// silent is a source that has one snapshot, and then does not answer.
type silent struct{ s *Snapshot }

func (s silent) Load(context.Context) (*Snapshot, error) { return s.s, nil }

func (s silent) Watch(ctx context.Context, _ func(*Snapshot, error)) error {
	<-ctx.Done()
	return nil
}

func TestDiffNamesOverrides(t *testing.T) {
	const rules = "limits: [{key: a, limit: 1/s}]\n"
	const first = rules + "overrides: [{key: a, limit: 2x, until: 2026-11-23T05:00:00Z, author: ada, reason: r}, {all: true, limit: bypass, until: 2026-11-23T05:00:00Z, author: ada, reason: r}]\n"
	none, some := mustParse(t, rules), mustParse(t, first)
	later := mustParse(t, strings.Replace(first, "2x, until: 2026-11-23T05", "2x, until: 2026-11-23T06", 1))
	for _, tt := range []struct {
		from, to *Snapshot
		want     []string
	}{
		{none, some.At(three), []string{
			`override of "a" added: limit 2x, until 2026-11-23T05:00:00Z, author ada, reason r`,
			"override of all rules added: all true, limit bypass, until 2026-11-23T05:00:00Z, author ada, reason r",
		}},
		{some, later, []string{`override of "a": until 2026-11-23T05:00:00Z → 2026-11-23T06:00:00Z`}},
		{some.At(three), none, []string{`override of "a" removed`, "override of all rules removed"}},
		{some, some.At(three), nil},
	} {
		var got []string
		for _, c := range Diff(tt.from, tt.to) {
			got = append(got, c.String())
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
