// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func files(texts ...string) (all []File) {
	for i, text := range texts {
		all = append(all, File{Name: string(rune('a'+i)) + ".yaml", Data: []byte(text)})
	}
	return all
}

func TestFilesAreOneConfiguration(t *testing.T) {
	s, err := ParseFiles("limits", files(
		"defaults: {fallback: closed}\nlimits:\n  - {key: \"*:x\", limit: 1/s}\nproperties: {one: 1}\n",
		"limits:\n  - {key: \"mail:*\", limit: 2/s, algorithm: mine}\n  - {key: orders, limit: 3/s}\nunmatched: deny\n",
		"defaults: {update_interval: 1s, max_keys: 7}\nlimits: [{key: \"*:x*\", limit: 4/s}]\nproperties: {two: 2}\n",
	))
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{"mail:x": 1, "mail:y": 2, "orders": 3, "a:xy": 4} {
		if r, ok := s.Match(key); !ok || float64(r.Limit) != want {
			t.Errorf("%s has %+v", key, r)
		}
	}
	rules := s.Rules()
	if rules[0].Fallback != FallbackClosed || rules[1].Fallback != FallbackEven || rules[0].MaxKeys == 7 || rules[3].MaxKeys != 7 {
		t.Errorf("the rules are %+v: defaults are of one file", rules)
	}
	if rules[0].Lease != 10*time.Second || s.Properties().UpdateInterval != time.Second || s.Unmatched() != UnmatchedDeny {
		t.Errorf("the cluster's settings are %+v, leases %v", s.Properties(), rules[0].Lease)
	}
	if names := s.Values().Names(); len(names) != 2 {
		t.Errorf("the properties are %v", names)
	}
	whole, err := Parse("limits", []byte(s.Text()))
	if err != nil || whole.Version() != s.Version() {
		t.Errorf("its text is another configuration: %v\n%s", err, s.Text())
	}
	err = s.Check(func(name string) bool { return name != "mine" })
	if err == nil || !strings.HasPrefix(err.Error(), "b.yaml:2:44: there is no algorithm \"mine\"") {
		t.Errorf("an unknown algorithm: %v", err)
	}
}

func TestFilesThatClashAreMistakes(t *testing.T) {
	for want, texts := range map[string][]string{
		"b.yaml:2:11: rule \"a\": key: a.yaml:1:16 has the same key: remove one of the two":       {"limits: [{key: a, limit: 1/s}]", "limits:\n  - {key: a, limit: 1/s}"},
		"rule \"\\\\a\": key: rule number 1 has the same key":                                     {"limits: [{key: a, limit: 1/s}]", "limits: [{key: '\\a', limit: 1/s}]"},
		"b.yaml:1:12: unmatched: are settings of the whole cluster, and a.yaml:1:12 has them too": {"unmatched: deny", "unmatched: allow"},
		"b.yaml:1:12: defaults: has settings of the whole cluster, and a.yaml:1:12 has them too":  {"defaults: {update_interval: 1s}", "defaults: {gc_after: 1m}"},
		"b.yaml:1:18: properties: \"x\" is already given at a.yaml:1:18: remove one of the two":   {"properties: {x:  1}", "properties: {x:  1}"},
		"b.yaml:1:26: rule \"b\": limit":                                                          {"limits: []", "limits: [{key: b, limit: 5}]"},
		"b.yaml:1:26: rule \"b\": lease: 2s ends before the next report":                          {"defaults: {update_interval: 5s}", "limits: [{key: b, lease: 2s, limit: 1/s}]"},
		"b.yaml: has no content": {"limits: []", ""},
		"limits: has no file":    nil,
		"b.yaml:1:9: limits: is the text \"x\": write a list, each rule beginning with - key:": {"limits: []", "limits: x"},
	} {
		_, err := ParseFiles("limits", files(texts...))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", texts, err, want)
		}
		if _, ok := errors.AsType[*Error](err); !ok {
			t.Errorf("%q: %T", texts, err)
		}
	}
}

func TestWarningsSpanFiles(t *testing.T) {
	s, err := ParseFiles("limits", files("limits: [{key: \"mail:*\", limit: 1/s}]", "limits: [{key: a, limit: 1/s}, {key: \"mail:x*\", limit: 1/s}]"))
	if err != nil {
		t.Fatal(err)
	}
	if w := s.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0].Error(), "b.yaml:1:38: rule \"mail:x*\" is never used: \"mail:*\" stands before it") {
		t.Errorf("warnings: %v", w)
	}
}
