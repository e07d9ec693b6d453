// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Each row is one rule beside some defaults, and what becomes of it.
func TestFieldsAboutOneEvent(t *testing.T) {
	for _, c := range []struct {
		defaults, rule string
		want           func(r *Rule) bool
	}{
		{"", "limit: 10/s", func(r *Rule) bool {
			return r.MaxWait == 0 && r.MaxDebt == 0 && r.MaxCost == 0 && r.Enforced() == 1 && r.Costliest() == 10
		}},
		{"", "limit: 10/s, max_wait: 1s, max_debt: 2s, max_cost: 500, enforce: 25%", func(r *Rule) bool {
			return r.MaxWait == time.Second && r.MaxDebt == 2*time.Second && r.MaxCost == 500 && r.Enforced() == 0.25 && r.Costliest() == 500
		}},
		{"", "limit: 10/s, burst: 500, max_cost: 500", func(r *Rule) bool { return r.Costliest() == 500 }},
		{"", "limit: 10/s, max_wait: 0s, max_debt: 0s, enforce: 0%", func(r *Rule) bool {
			return r.MaxWait == None && r.MaxDebt == None && r.Enforced() == 0
		}},
		{"max_wait: 1s, max_debt: 2s, enforce: 0%, ", "limit: 10/s, max_cost: 30", func(r *Rule) bool {
			return r.MaxWait == time.Second && r.MaxDebt == 2*time.Second && r.MaxCost == 30 && r.Enforced() == 0
		}},
		{"max_wait: 1s, max_debt: 2s, enforce: 0%, ", "limit: 10/s, max_wait: 3s, max_debt: 0s, enforce: 100%", func(r *Rule) bool {
			return r.MaxWait == 3*time.Second && r.MaxDebt == None && r.Enforced() == 1
		}},
		{"max_wait: 1s, max_debt: 2s, enforce: 0%, ", "limit: 10 in-flight", func(r *Rule) bool {
			return r.MaxWait == 0 && r.MaxDebt == 0 && r.Enforced() == 1
		}},
		{"", "limit: 10/s, algorithm: exact", func(r *Rule) bool { return r.AskTimeout == rule.DefaultAskTimeout }},
		{"", "limit: 10/s, algorithm: exact, ask_timeout: 1ms", func(r *Rule) bool { return r.AskTimeout == time.Millisecond }},
		{"ask_timeout: 10s, ", "limit: 10/s, algorithm: auto", func(r *Rule) bool { return r.AskTimeout == 10*time.Second }},
		{"ask_timeout: 1s, ", "limit: 10/s, algorithm: exact, ask_timeout: 2s", func(r *Rule) bool { return r.AskTimeout == 2*time.Second }},
		{"", "limit: 10/s, migrate: {from: even, to: exact, mode: old}, ask_timeout: 2s", func(r *Rule) bool { return r.AskTimeout == 2*time.Second }},
		{"ask_timeout: 1s, ", "limit: 10/s, algorithm: of-the-service", func(r *Rule) bool { return r.AskTimeout == time.Second }},
		{"ask_timeout: 1s, ", "limit: 10/s, algorithm: elastic", func(r *Rule) bool { return r.AskTimeout == 0 }},
		{"ask_timeout: 1s, algorithm: exact, ", "limit: 10 in-flight", func(r *Rule) bool { return r.AskTimeout == 0 }},
	} {
		s := mustParse(t, "defaults: {"+c.defaults+"}\nlimits: [{key: k, "+c.rule+"}]\n")
		if r := s.Rules()[0]; !c.want(&r) {
			t.Errorf("defaults {%s}, rule {%s} = %+v", c.defaults, c.rule, r)
		}
		again := mustSnapshot(t, Config{Properties: s.Properties(), Rules: s.Rules()})
		if again.Version() != s.Version() {
			t.Errorf("%+v became %+v", s.Rules(), again.Rules())
		}
		if written := mustParse(t, string(s.YAML())); written.Version() != s.Version() {
			t.Errorf("%+v is read back as %+v", s.Rules(), written.Rules())
		}
	}
}

// A snapshot has valid numbers only, from any input.
func TestConfigLetsNoInvalidTermsThrough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 2), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), math.Inf(-1), 1, Soft, 0.25, 1e9, 1e12, 1e13}))
		d := rapid.OneOf(rapid.SampledFrom([]int64{0, -1, -2, 1, math.MaxInt64, math.MinInt64}), rapid.Int64Range(0, int64(time.Minute)))
		r := Rule{
			Key: "k", Limit: rate.Limit(rapid.SampledFrom([]float64{0, 1, 100}).Draw(t, "limit")), InFlight: rapid.Bool().Draw(t, "in flight"),
			MaxWait: time.Duration(d.Draw(t, "max_wait")), MaxDebt: time.Duration(d.Draw(t, "max_debt")),
			MaxCost: f.Draw(t, "max_cost"), Enforce: f.Draw(t, "enforce"),
			Algorithm: rapid.SampledFrom([]string{"", "exact", "even"}).Draw(t, "algorithm"), AskTimeout: time.Duration(d.Draw(t, "ask_timeout")),
		}
		s, err := Config{Rules: []Rule{r}}.Snapshot()
		if err != nil {
			return
		}
		got := s.Rules()[0]
		valid := func(d time.Duration) bool { return d >= None && d <= 24*time.Hour }
		part := got.Enforced()
		ok := valid(got.MaxWait) && valid(got.MaxDebt) && part >= 0 && part <= 1 &&
			(got.MaxCost == 0 || got.MaxCost >= 1 && got.MaxCost <= rule.MaxCost && (got.MaxDebt > 0 || got.MaxCost <= got.Burst))
		if got.Algorithm == "exact" || got.Algorithm == "auto" {
			ok = ok && got.AskTimeout >= rule.MinAskTimeout && got.AskTimeout <= rule.MaxAskTimeout
		} else {
			ok = ok && got.AskTimeout == 0
		}
		if got.InFlight {
			ok = ok && got.MaxWait == 0 && got.MaxDebt == 0 && got.MaxCost == 0 && got.Enforce == 0
		}
		if !ok {
			t.Fatalf("%+v became %+v", r, got)
		}
	})
}

func TestVersionFollowsFieldsAboutOneEvent(t *testing.T) {
	base := Rule{Key: "k", Limit: 10, Algorithm: "exact"}
	v := mustSnapshot(t, Config{Rules: []Rule{base}}).Version()
	for name, change := range map[string]func(r *Rule){
		"max_wait": func(r *Rule) { r.MaxWait = None },
		"max_debt": func(r *Rule) { r.MaxDebt = time.Second },
		"max_cost": func(r *Rule) { r.MaxCost = 5 },
		"enforce":  func(r *Rule) { r.Enforce = Soft },

		"ask_timeout": func(r *Rule) { r.AskTimeout = time.Second },
	} {
		r := base
		change(&r)
		if mustSnapshot(t, Config{Rules: []Rule{r}}).Version() == v {
			t.Errorf("%s makes no other version", name)
		}
	}
}
