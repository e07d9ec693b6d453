// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// messages are what p says, each with its line.
func messages(p *strictyaml.Problems) (all []string) {
	p.Each(func(at Mark, message, _ string) { all = append(all, fmt.Sprintf("%d: %s", at.Line, message)) })
	return all
}

// stated is an entry that has each field in a line of its own: the first in line from.
func stated(from int, r rule.Rule, names ...string) *Entry {
	e := &Entry{Who: "rule " + r.Key, Rule: r, At: Mark{Line: from, Column: 1}}
	for i, name := range names {
		e.State(name, Mark{Line: from + i, Column: 1})
	}
	return e
}

// uses are all of c.
func uses(c *Content) []Use { return slices.Collect(c.Uses(func(*Run) bool { return true })) }

func TestARuleTakesTheDefaultsForWhatItDoesNotState(t *testing.T) {
	p := new(strictyaml.Problems)
	b := New(p)
	b.Properties(rule.Properties{UpdateInterval: 2 * time.Second}, nil)
	b.Defaults(stated(1, rule.Rule{Algorithm: "elastic", Lease: time.Minute, Private: true}, "algorithm", "lease", "private"))
	b.Rule(stated(5, rule.Rule{Key: "a:*", Limit: 100}, "key", "limit"))
	b.Rule(stated(8, rule.Rule{Key: "b:*", Limit: 5, Algorithm: "static", Lease: time.Hour}, "key", "limit", "algorithm", "lease"))
	c := b.Finish()
	if p.Any() {
		t.Fatal(messages(p))
	}
	first, second := c.Rules[0], c.Rules[1]
	if first.Algorithm != "elastic" || first.Lease != time.Minute || first.Burst != 100 || !first.Private || first.IdleAfter != 10*time.Second {
		t.Errorf("the first rule is %+v", first)
	}
	if second.Algorithm != "static" || second.Lease != time.Hour || second.Burst != 5 {
		t.Errorf("the second rule is %+v", second)
	}
	if i := c.Keys.Index.Find("b:x"); i != 1 {
		t.Errorf("rule %d is for b:x", i)
	}
	want := []Use{{Algorithm: "elastic", Who: "rule a:*", At: Mark{Line: 1, Column: 1}}, {Algorithm: "static", Who: "rule b:*", At: Mark{Line: 10, Column: 1}}}
	if got := uses(c); !reflect.DeepEqual(got, want) {
		t.Errorf("uses are %+v, want %+v", got, want)
	}
}

func TestEachMistakeIsToldOnceAtItsField(t *testing.T) {
	for name, c := range map[string]struct {
		rule   rule.Rule
		fields []string
		want   string
	}{
		"limit":       {rule.Rule{Key: "a", Limit: -1}, []string{"key", "limit"}, "11: rule a: limit: -1 events/s is out of range"},
		"no limit":    {rule.Rule{Key: "a"}, []string{"key"}, "10: rule a: has no limit: add limit"},
		"key":         {rule.Rule{Key: "[", Limit: 1}, []string{"key", "limit"}, "10: rule [: key: has a [ that is never closed"},
		"burst":       {rule.Rule{Key: "a", Limit: 1, Burst: 0.5}, []string{"key", "limit", "burst"}, "12: rule a: burst: 0.5 is out of range"},
		"slots":       {rule.Rule{Key: "a", Limit: 1, InFlight: true, Algorithm: "elastic"}, []string{"key", "limit", "algorithm"}, "12: rule a: algorithm: elastic shares rates and not slots"},
		"cost":        {rule.Rule{Key: "a", Limit: 1, MaxCost: 5}, []string{"key", "limit", "max_cost"}, "12: rule a: max_cost: 5 can never be had"},
		"bad already": {rule.Rule{Key: "a"}, []string{"key", "limit", "spoilt"}, ""},
	} {
		p := new(strictyaml.Problems)
		b := New(p)
		b.Properties(rule.Properties{}, nil)
		e := stated(10, c.rule, c.fields...)
		if e.Has("spoilt") { // the limit could not be read, which was reported
			e.Spoil("limit")
		}
		b.Rule(e)
		b.Finish()
		got := messages(p)
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestMergeRefusesAKeyTwice(t *testing.T) {
	part := func(key string) *Content {
		b := New(new(strictyaml.Problems))
		b.Properties(rule.Properties{}, nil)
		b.Rule(stated(1, rule.Rule{Key: key, Limit: 1}, "key", "limit"))
		b.Value("n", int64(1), Mark{Line: 3})
		return b.Finish()
	}
	for key, want := range map[string]string{"b:*": "", "a:*": `0: rule "a:*": key: rule number 1 has the same key: remove one of the two`} {
		p := new(strictyaml.Problems)
		b := New(p)
		b.Properties(rule.Properties{}, nil)
		b.After(nil)
		b.Merge(part("a:*"))
		b.Merge(part(key))
		c := b.Finish()
		if got := strings.Join(messages(p), "\n"); got != want {
			t.Errorf("with %s: %q, want %q", key, got, want)
		}
		if len(c.Rules) != 2 || len(uses(c)) != 2 || c.Values["n"].V != int64(1) {
			t.Errorf("with %s, it is %+v", key, c)
		}
	}
}

func TestAnOverrideSaysWhatItLacks(t *testing.T) {
	until := time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC)
	for want, o := range map[string]rule.Override{
		"":                        {Key: "a", Factor: 2, Until: until, Author: "ada", Reason: "sale"},
		"has no until":            {Key: "a", Factor: 2, Author: "ada", Reason: "sale"},
		"has no author":           {Key: "a", Bypass: true, Until: until, Reason: "sale"},
		"limit: one limit for":    {All: true, Limit: 5, Until: until, Author: "ada", Reason: "sale"},
		"has no key":              {Factor: 2, Until: until, Author: "ada", Reason: "sale"},
		"limit: the factor 5000 ": {Key: "a", Factor: 5000, Until: until, Author: "ada", Reason: "sale"},
	} {
		p := new(strictyaml.Problems)
		b := New(p)
		b.Override(&Override{Override: o, Who: "o", Stated: map[string]Mark{"limit": {}}})
		got := messages(p)
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], "0: o: "+want)) {
			t.Errorf("%+v: %q, want %q", o, got, want)
		}
	}
}
