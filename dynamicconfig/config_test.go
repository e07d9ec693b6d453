// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig/rule"
)

func mustSnapshot(t testing.TB, c Config) *Snapshot {
	t.Helper()
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConfigFillsInDefaults(t *testing.T) {
	s := mustSnapshot(t, Config{
		Defaults: Rule{Algorithm: "exact", Lease: time.Minute},
		Rules: []Rule{
			{Key: "a", Limit: 10},
			{Key: "b", Limit: 10, Algorithm: "even", Lease: 9 * time.Second},
			{Key: "c", Limit: 10, Migration: &Migration{From: "even", To: "exact", Mode: ModeOld}},
		},
		Unmatched:     UnmatchedRule,
		UnmatchedRule: &Rule{Limit: 0},
	})
	r := s.Rules()
	if r[0].Algorithm != "exact" || r[0].Lease != time.Minute || r[0].Burst != 10 || r[0].IdleAfter != 15*time.Second {
		t.Errorf("rule a = %+v", r[0])
	}
	if r[1].Algorithm != "even" || r[1].Lease != 9*time.Second {
		t.Errorf("rule b = %+v", r[1])
	}
	if r[2].Algorithm != "" || *r[2].Migration != (Migration{From: "even", To: "exact", Mode: ModeOld}) {
		t.Errorf("rule c = %+v", r[2])
	}
	if u, ok := s.Match("x"); !ok || u.Key != "*" || u.Limit != 0 || u.Burst != 0 {
		t.Errorf("unmatched = %+v", u)
	}
}

func TestConfigNamesEachBrokenRule(t *testing.T) {
	_, err := Config{
		Name:       "built in",
		Properties: Properties{UpdateInterval: time.Millisecond, NewDataWeight: math.NaN()},
		Defaults:   Rule{Limit: 5, Lease: -1},
		Rules: []Rule{
			{Limit: 1},
			{Key: "nan", Limit: rate.Limit(math.NaN())},
			{Key: "inf", Limit: rate.Inf},
			{Key: "burst", Limit: 1, Burst: math.Inf(1)},
			{Key: "zero", Burst: 5},
			{Key: "mode", Limit: 1, Migration: &Migration{From: "a", To: "b", Mode: Mode(7)}},
			{Key: "fallback", Limit: 1, Fallback: 9},
			{Key: "safe", Limit: 1, Fallback: FallbackSafe},
			{Key: "glob[", Limit: 1},
		},
		Unmatched: UnmatchedRule,
		Values:    map[string]any{"a": []int{1}, "b": math.Inf(1)},
	}.Snapshot()
	const want = `built in: update_interval: 1ms is out of range: use 100ms to 1h
built in: new_data_weight: NaN is out of range: use more than 0 and at most 1
built in: defaults: limit: belongs to one rule: move it there
built in: defaults: lease: -1ns is out of range: use more than 0 and at most 24h
built in: rule number 1: key: has 0 bytes: use 1 to 1024
built in: rule "nan": limit: NaN events/s is out of range: use 0/s to 1e12/s
built in: rule "inf": limit: 1.7976931348623157e308 events/s is out of range: use 0/s to 1e12/s
built in: rule "burst": burst: +Inf is out of range: use 1 to 1e12
built in: rule "zero": burst: a limit of 0 allows nothing, so it has no burst: remove burst
built in: rule "mode": migrate: there is no mode(7): use disabled, old, old-shadow-new, new-shadow-old or new
built in: rule "fallback": fallback: there is no fallback(9): use even, open, closed or safe
built in: rule "safe": fallback: safe needs a safe_capacity: add safe_capacity: 10/s, or what one host may do alone
built in: rule "glob[": key: has a [ that is never closed: add the ], or write \[ for the byte itself
built in: unmatched: UnmatchedRule is nil: set it, or choose UnmatchedAllow or UnmatchedDeny
built in: properties: "a" is a []int: use a string, bool, int, int64, float64 or time.Duration
built in: properties: "b" is +Inf: write a finite number`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if one := new(Error); !errors.As(err, &one) || one.Name != "built in" || one.Line != 0 {
		t.Errorf("first error = %#v", one)
	}
}

// What comes out of a snapshot makes the same snapshot again.
func TestRulesRoundTrip(t *testing.T) {
	s := mustParse(t, `
limits:
  - {key: "a*", limit: 10/s, fallback: safe, safe_capacity: 2/s, shared: true}
  - {key: b, limit: 0/s}
  - {key: c, limit: 1/h, migrate: {from: even, to: exact, mode: disabled}}
`)
	again := mustSnapshot(t, Config{Properties: s.Properties(), Rules: s.Rules()})
	if s.Version() != again.Version() {
		t.Errorf("%+v\n%+v", s.Rules(), again.Rules())
	}
}

func TestVersionFollowsTheMeaning(t *testing.T) {
	const text = "limits: [{key: a, limit: 60/m, migrate: {from: even, to: exact, mode: old}}]\nproperties: {x: 1}\n"
	same := []string{
		"# a comment\n" + text,
		strings.Replace(text, "60/m", "1/s", 1),
		strings.Replace(text, "limit:", "lease: 30s, limit:", 1),
	}
	other := []string{
		strings.Replace(text, "60/m", "61/m", 1),
		strings.Replace(text, "even", "uneven", 1),
		strings.Replace(text, "mode: old", "mode: new", 1),
		strings.Replace(text, "x: 1", "x: 1.0", 1),
		text + "unmatched: deny\n",
		text + "unmatched: {limit: 1/s}\n",
		text + "defaults: {gc_after: 40s}\n",
	}
	v := mustParse(t, text).Version()
	if len(v) != 12 {
		t.Errorf("version = %q", v)
	}
	for _, text := range same {
		if got := mustParse(t, text).Version(); got != v {
			t.Errorf("another version for\n%s", text)
		}
	}
	for _, text := range other {
		if got := mustParse(t, text).Version(); got == v {
			t.Errorf("the same version for\n%s", text)
		}
	}
}

func TestSnapshotIsItsOwn(t *testing.T) {
	m := &Migration{From: "even", To: "exact", Mode: ModeOld}
	c := Config{Rules: []Rule{{Key: "a", Limit: 1, Migration: m}}}
	s := mustSnapshot(t, c)
	m.From, c.Rules[0].Limit = "changed", 7
	s.Rules()[0].Limit = 8
	if r, _ := s.Match("a"); r.Limit != 1 || r.Migration.From != "even" {
		t.Errorf("rule = %+v", r)
	}
}

func TestEachRuleIsTheOneThatMatchFinds(t *testing.T) {
	s := mustSnapshot(t, Config{
		Rules:     []Rule{{Key: "a", Limit: 1}, {Key: "b*", Limit: 2}, {Key: "c", Limit: 3}},
		Overrides: []Override{{Key: "b*", Factor: 0.5, Until: three, Author: "a", Reason: "r"}},
	}).At(three.Add(-1))
	n := 0
	for r := range s.Each() {
		if found, _ := s.Match(r.Key); found != r {
			t.Errorf("%q: Match finds %p, and Each gives %p", r.Key, found, r)
		}
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d rules were given", n)
	}
}

func TestExactKeysWinAndThenTheFirstGlob(t *testing.T) {
	s := mustParse(t, `limits:
  - {key: "*:b", limit: 1/s}
  - {key: "abc*", limit: 2/s}
  - {key: "a*", limit: 3/s}
  - {key: "a:b", limit: 4/s}
  - {key: "a:c", limit: 5/s}
`)
	for key, want := range map[string]rate.Limit{
		"a:b": 4, "a:c": 5, "abc": 2, "abcd": 2, "ab": 3, "a": 3, "abc:b": 1, "x:b": 1, "": 0, "b": 0,
	} {
		got := rate.Limit(0)
		if r, ok := s.Match(key); ok {
			got = r.Limit
		}
		if got != want {
			t.Errorf("%q has the limit %v, want %v", key, got, want)
		}
	}
}

func TestMatchGivesTheSamePointer(t *testing.T) {
	s := mustParse(t, "limits: [{key: 'a:*', limit: 1/s}]\nunmatched: {limit: 1/s}")
	for _, key := range []string{"a:b", "else"} {
		one, _ := s.Match(key)
		two, _ := s.Match(key)
		if one != two {
			t.Errorf("%q has two rules", key)
		}
	}
}

func TestPropertiesHaveDefaults(t *testing.T) {
	complete := func(p Properties) (Properties, error) {
		s, err := Config{Properties: p}.Snapshot()
		if err != nil {
			return p, err
		}
		return s.Properties(), nil
	}
	p, err := complete(Properties{UpdateInterval: time.Minute})
	if err != nil || p.UpdateTimeout != time.Second || p.DecayAfter != 2*time.Minute || p.GCAfter != 10*time.Minute {
		t.Errorf("properties are %+v, %v", p, err)
	}
	if p, err = complete(Properties{DecayAfter: time.Hour}); err != nil || p.GCAfter != time.Hour {
		t.Errorf("properties are %+v, %v", p, err)
	}
	if _, err = complete(Properties{MaxKeys: -1}); err == nil {
		t.Error("no error for a negative number of keys")
	}
	again, err := complete(p)
	if err == nil && again != p {
		t.Errorf("what is complete becomes %+v, want %+v", again, p)
	}
}

// A snapshot has valid numbers only, from any input.
func TestConfigLetsNoInvalidNumberThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 1e13), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324, 1, 1e12}))
		r := Rule{Key: "k", Limit: rate.Limit(f.Draw(t, "limit")), Burst: f.Draw(t, "burst"), SafeCapacity: rate.Limit(f.Draw(t, "safe")), Fallback: Fallback(rapid.IntRange(0, 5).Draw(t, "fallback")), Lease: time.Duration(rapid.Int64().Draw(t, "lease"))}
		if rapid.Bool().Draw(t, "plain") {
			r.Burst, r.SafeCapacity, r.Fallback, r.Lease = 0, 0, 0, 0
		}
		s, err := Config{Rules: []Rule{r}}.Snapshot()
		if err != nil {
			return
		}
		got := s.Rules()[0]
		limit := float64(got.Limit)
		ok := limit >= 0 && limit <= rule.MaxLimit && got.Fallback <= FallbackSafe && got.Lease > 3*time.Second && got.Lease <= 24*time.Hour
		if limit == 0 {
			ok = ok && got.Burst == 0
		} else {
			ok = ok && got.Burst >= 1 && got.Burst <= rule.MaxBurst && got.Burst/limit <= rule.MaxRefill.Seconds()
		}
		ok = ok && (got.Fallback == FallbackSafe) == (got.SafeCapacity > 0) && !math.IsInf(float64(got.SafeCapacity), 0)
		if !ok {
			t.Fatalf("%+v became %+v", r, got)
		}
	})
}

func TestErrorShowsTheEndOfALongLine(t *testing.T) {
	e := &Error{Name: "f", Line: 1, Column: 1000, Message: "m", Source: strings.Repeat("x", 999) + "\tY" + strings.Repeat("z", 999)}
	lines := strings.Split(e.Error(), "\n")
	if len(lines) != 3 || len(lines[1]) > 200 {
		t.Fatalf("error = %q", lines)
	}
	if at := strings.IndexByte(lines[2], '^'); []rune(lines[1])[at] != '\t' {
		t.Errorf("the caret of\n%s\nis elsewhere", e)
	}
}
