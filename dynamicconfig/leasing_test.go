// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig/rule"
)

func TestParseReadsFieldsAboutLeases(t *testing.T) {
	s := mustParse(t, `
limits:
  - key: "db:*"
    limit: 100 in-flight
    algorithm: fair-share
    parameters: {scope: host, factor: 0.5, on: true, "no": "no"}
    fallback: safe
    safe_capacity: 4in-flight
    lease: 1m
    refresh: 16s
    learning: 20s
    recalculate: 4s
    overcommit: 2.5 %
    priority: -7
    priorities: {10: static, -5: none}
    parent: true
  - {key: none, limit: 0 in-flight, learning: 0s, recalculate: 0}
`)
	r := s.Rules()
	if a := r[0]; !a.InFlight || a.Limit != 100 || a.Burst != 0 || a.SafeCapacity != 4 || a.Algorithm != "fair-share" ||
		a.Refresh != 16*time.Second || a.Learning != 20*time.Second || a.Recalculate != 4*time.Second ||
		a.Overcommit != 0.025 || a.Priority != -7 || !a.Parent ||
		!maps.Equal(a.Priorities, map[int64]string{10: "static", -5: "none"}) ||
		!maps.Equal(a.Parameters, map[string]string{"scope": "host", "factor": "0.5", "on": "true", "no": "no"}) {
		t.Errorf("rule = %+v", a)
	}
	if b := r[1]; !b.InFlight || b.Limit != 0 || b.Burst != 0 || b.Algorithm != "proportional-share" || b.Learning != None || b.Recalculate != None {
		t.Errorf("rule = %+v", b)
	}
	if got := strings.Join(s.Algorithms(), " "); got != "fair-share none proportional-share static" {
		t.Errorf("Algorithms() = %s", got)
	}
}

// Each row is one rule beside some defaults, and what becomes of it.
func TestFieldsAboutLeasesHaveDefaults(t *testing.T) {
	const leased = "algorithm: static, "
	for _, c := range []struct {
		defaults, rule string
		want           func(r Rule) bool
	}{
		{"", "", func(r Rule) bool {
			return r.Refresh == 3*time.Second && r.Learning == 30*time.Second && r.Recalculate == 5*time.Second &&
				r.Overcommit == 0 && r.Priority == 0 && r.Priorities == nil && r.Parameters == nil && !r.Parent && !r.InFlight
		}},
		// What follows from a short lease is cut to it.
		{"", "lease: 4s", func(r Rule) bool {
			return r.Refresh == 2*time.Second && r.Learning == 4*time.Second && r.Recalculate == 4*time.Second
		}},
		{"refresh: 8s, recalculate: 20s, learning: 1m, ", "lease: 10s", func(r Rule) bool {
			return r.Refresh == 5*time.Second && r.Recalculate == 10*time.Second && r.Learning == time.Minute
		}},
		{"refresh: 8s, ", "refresh: 9s", func(r Rule) bool { return r.Refresh == 9*time.Second }},
		{"learning: 0s, recalculate: 0s, ", "", func(r Rule) bool { return r.Learning == None && r.Recalculate == None }},
		{"learning: 0s, ", "learning: 1m", func(r Rule) bool { return r.Learning == time.Minute }},
		// What says how a limit is leased is for rules that lease.
		{"overcommit: 10%, priorities: {1: static}, ", "", func(r Rule) bool { return r.Overcommit == 0 && r.Priorities == nil }},
		{"overcommit: 10%, priorities: {1: static}, ", leased, func(r Rule) bool { return r.Overcommit == 0.1 && r.Priorities[1] == "static" }},
		{"overcommit: 10%, ", leased + "overcommit: 0%", func(r Rule) bool { return r.Overcommit == 0 }},
		{"one_band: true, ", "", func(r Rule) bool { return !r.OneBand }},
		{"one_band: true, ", leased, func(r Rule) bool { return r.OneBand }},
		{"one_band: true, ", leased + "one_band: false", func(r Rule) bool { return !r.OneBand }},
		{"priority: 5, parent: true, ", "", func(r Rule) bool { return r.Priority == 5 && r.Parent }},
		{"priority: 5, parent: true, ", "priority: 0, parent: false", func(r Rule) bool { return r.Priority == 0 && !r.Parent }},
		// Parameters belong to the algorithm beside which they stand.
		{leased + "parameters: {a: b}, ", "", func(r Rule) bool { return r.Parameters["a"] == "b" }},
		{leased + "parameters: {a: b}, ", leased, func(r Rule) bool { return r.Parameters == nil }},
		{leased + "parameters: {a: b}, ", "parameters: {c: d}", func(r Rule) bool { return len(r.Parameters) == 1 && r.Parameters["c"] == "d" }},
		{leased + "parameters: {a: b}, ", "migrate: {from: a, to: b, mode: old}", func(r Rule) bool { return r.Parameters == nil }},
	} {
		s := mustParse(t, "defaults: {"+c.defaults+"}\nlimits: [{key: k, limit: 10/s, "+c.rule+"}]\n")
		if r := s.Rules()[0]; !c.want(r) {
			t.Errorf("defaults {%s}, rule {%s} = %+v", c.defaults, c.rule, r)
		}
	}
}

// Slots are shared by the default algorithm only if it can.
func TestSlotsHaveAnAlgorithmForSlots(t *testing.T) {
	for defaults, want := range map[string]string{
		"": "proportional-share", "algorithm: elastic": "proportional-share", "algorithm: mine": "proportional-share",
		"algorithm: fair-share": "fair-share", "algorithm: even": "even",
		"migrate: {from: static, to: elastic, mode: old}": "proportional-share",
		"migrate: {from: static, to: none, mode: old}":    "",
		"fallback: safe, safe_capacity: 3 in-flight":      "proportional-share",
	} {
		s := mustParse(t, "defaults: {"+defaults+"}\nlimits: [{key: k, limit: 10 in-flight}]\n")
		r := s.Rules()[0]
		if r.Algorithm != want || (r.Migration != nil) != (want == "") || r.Burst != 0 || (r.SafeCapacity == 3) != (r.Fallback == FallbackSafe) {
			t.Errorf("beside %s: %+v", defaults, r)
		}
	}
	// A safe capacity in the other unit is none.
	_, err := Parse("f", []byte("defaults: {fallback: safe, safe_capacity: 3/s}\nlimits: [{key: k, limit: 10 in-flight}]\n"))
	if err == nil || !strings.Contains(err.Error(), "add safe_capacity: 10 in-flight") {
		t.Errorf("Parse = %v", err)
	}
	// Whoever writes an algorithm of their own says so in the rule.
	if r := mustParse(t, "limits: [{key: k, limit: 10 in-flight, algorithm: mine}]").Rules()[0]; r.Algorithm != "mine" {
		t.Errorf("rule = %+v", r)
	}
}

func TestRulesAboutLeasesRoundTripThroughCode(t *testing.T) {
	s := mustParse(t, `
limits:
  - {key: a, limit: 10 in-flight, fallback: safe, safe_capacity: 2 in-flight, learning: 0s, recalculate: 0s, overcommit: 10%, one_band: true, parent: true}
  - {key: b, limit: 10/s, algorithm: fair-share, priority: 3, priorities: {1: static, 2: none}, parameters: {x: y}, lease: 4s}
  - {key: c, limit: 0 in-flight}
`)
	rules := s.Rules()
	again := mustSnapshot(t, Config{Properties: s.Properties(), Rules: rules})
	if s.Version() != again.Version() {
		t.Errorf("%+v\n%+v", rules, again.Rules())
	}
	rules[1].Priorities[1], rules[1].Parameters["x"] = "changed", "changed"
	if r := again.Rules()[1]; r.Priorities[1] != "static" || r.Parameters["x"] != "y" {
		t.Errorf("a snapshot shares maps with its config: %+v", r)
	}
}

func TestVersionFollowsFieldsAboutLeases(t *testing.T) {
	base := Rule{Key: "k", Limit: 10, Algorithm: "static"}
	same := base
	same.Parameters, same.Priorities = map[string]string{}, map[int64]string{}
	v := mustSnapshot(t, Config{Rules: []Rule{base}}).Version()
	if got := mustSnapshot(t, Config{Rules: []Rule{same}}).Version(); got != v {
		t.Error("empty maps make another version")
	}
	for name, change := range map[string]func(r *Rule){
		"in flight":   func(r *Rule) { r.InFlight = true },
		"refresh":     func(r *Rule) { r.Refresh = time.Second },
		"learning":    func(r *Rule) { r.Learning = None },
		"recalculate": func(r *Rule) { r.Recalculate = None },
		"overcommit":  func(r *Rule) { r.Overcommit = 0.5 },
		"priority":    func(r *Rule) { r.Priority = 1 },
		"priorities":  func(r *Rule) { r.Priorities = map[int64]string{1: "none"} },
		"one band":    func(r *Rule) { r.OneBand = true },
		"parameters":  func(r *Rule) { r.Parameters = map[string]string{"a": ""} },
		"parent":      func(r *Rule) { r.Parent = true },
	} {
		r := base
		change(&r)
		if mustSnapshot(t, Config{Rules: []Rule{r}}).Version() == v {
			t.Errorf("%s makes no other version", name)
		}
	}
}

func TestCheckPointsAtUnknownAlgorithmsOfBands(t *testing.T) {
	s := mustParse(t, "limits:\n  - key: k\n    limit: 1/s\n    algorithm: static\n    priorities: {1: static, 2: mine}\n")
	err := s.Check(func(name string) bool { return name == "static" })
	if err == nil || !strings.HasPrefix(err.Error(), `limits.yaml:5:32: there is no algorithm "mine" here`) {
		t.Errorf("Check = %v", err)
	}
}

func TestCheckParametersPointsAtThem(t *testing.T) {
	s := mustParse(t, `defaults:
  algorithm: static
  parameters: {a: 1}
limits:
  - {key: a, limit: 1/s}
  - {key: b, limit: 1/s, algorithm: static}
  - key: c
    limit: 1/s
    parameters: {b: 2}
  - {key: d, limit: 1/s, algorithm: mine, parameters: {good: 1}}
`)
	err := s.CheckParameters(func(algorithm string, p map[string]string) error {
		if algorithm == "mine" && p["good"] == "1" {
			return nil
		}
		return fmt.Errorf("%s knows no %v", algorithm, p)
	})
	const want = `limits.yaml:3:15: rule "a": parameters: static knows no map[a:1]
    3 |   parameters: {a: 1}
      |               ^
limits.yaml:9:17: rule "c": parameters: static knows no map[b:2]
    9 |     parameters: {b: 2}
      |                 ^`
	if err == nil || err.Error() != want {
		t.Errorf("CheckParameters =\n%v\nwant\n%s", err, want)
	}
}

func TestBoundsOnWhatIsNested(t *testing.T) {
	bands, parameters := make(map[int64]string), make(map[string]string)
	for i := range 40 {
		bands[int64(i)], parameters[itoa(i)] = "static", ""
	}
	_, err := Config{Rules: []Rule{
		{Key: "a", Limit: 1, Algorithm: "static", Priorities: bands},
		{Key: "b", Limit: 1, Parameters: parameters},
		{Key: "c", Limit: 1, Parameters: map[string]string{strings.Repeat("n", 129): "", "v": strings.Repeat("v", 1025)}},
	}}.Snapshot()
	for _, want := range []string{`"a": priorities: there are 40: use at most 16`, `"b": parameters: there are 40: use at most 32`, "has 129 bytes: use 1 to 128", `"v" has 1025 bytes: use at most 1024`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// A snapshot has valid numbers only, from any input.
func TestConfigLetsNoInvalidLeaseThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 2), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), math.Inf(-1), 1, 7, 1e9, 1e9 + 1, 1e12}))
		d := rapid.OneOf(rapid.SampledFrom([]int64{0, 0, -1, -2, 1}), rapid.Int64Range(0, int64(time.Minute)), rapid.Int64())
		duration := func(name string) time.Duration { return time.Duration(d.Draw(t, name)) }
		r := Rule{
			Key: "k", Limit: rate.Limit(f.Draw(t, "limit")), InFlight: rapid.Bool().Draw(t, "in flight"), Algorithm: rapid.SampledFrom([]string{"", "static", "even", "elastic"}).Draw(t, "algorithm"),
			Lease: duration("lease"), Refresh: duration("refresh"), Learning: duration("learning"), Recalculate: duration("recalculate"), Overcommit: f.Draw(t, "overcommit"),
		}
		s, err := Config{Rules: []Rule{r}}.Snapshot()
		if err != nil {
			return
		}
		got := s.Rules()[0]
		orNone := func(d, most time.Duration) bool { return d == None || d > 0 && d <= most }
		ok := got.Refresh > 0 && got.Refresh <= got.Lease/2 && orNone(got.Learning, 24*time.Hour) && orNone(got.Recalculate, got.Lease) && got.Overcommit >= 0 && got.Overcommit <= 1
		if got.InFlight {
			n := float64(got.Limit)
			ok = ok && n == math.Trunc(n) && n >= 0 && n <= rule.MaxSlots && got.Burst == 0 && got.Algorithm != "elastic"
		}
		if !ok {
			t.Fatalf("%+v became %+v", r, got)
		}
	})
}
