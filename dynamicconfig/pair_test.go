// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"strings"
	"testing"
)

// A rule names an algorithm, or a weigher on an account, wherever it names one.
func TestARuleNamesAPair(t *testing.T) {
	for name, text := range map[string]string{
		"YAML": `
defaults: {algorithm: {account: average, weigh: fair-share}}
limits:
  - {key: a, limit: 1/s}
  - key: b
    limit: 1/s
    algorithm:
      account: pool
      weigh: mine
  - {key: c, limit: 1/s, algorithm: pool/mine}
  - {key: d, limit: 5 in-flight, algorithm: {account: claims, weigh: mine}, priorities: {3: {account: claims, weigh: fair-share}}}
  - {key: e, limit: 1/s, migrate: {from: elastic, to: {account: pool, weigh: mine}, mode: new}}
`,
		"JSON": `{"defaults": {"algorithm": {"account": "average", "weigh": "fair-share"}}, "limits": [
{"key": "a", "limit": "1/s"}, {"key": "b", "limit": "1/s", "algorithm": {"account": "pool", "weigh": "mine"}},
{"key": "c", "limit": "1/s", "algorithm": "pool/mine"},
{"key": "d", "limit": "5 in-flight", "algorithm": {"account": "claims", "weigh": "mine"}, "priorities": {"3": {"account": "claims", "weigh": "fair-share"}}},
{"key": "e", "limit": "1/s", "migrate": {"from": "elastic", "to": {"account": "pool", "weigh": "mine"}, "mode": "new"}}]}`,
	} {
		s, err := Parse("limits", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		rules := s.Rules()
		for i, want := range []string{"average/fair-share", "pool/mine", "pool/mine", "claims/mine", ""} {
			if rules[i].Algorithm != want {
				t.Errorf("%s: rule %d has %q, want %q", name, i, rules[i].Algorithm, want)
			}
		}
		if got := rules[3].Priorities[3]; got != "claims/fair-share" {
			t.Errorf("%s: the band has %q", name, got)
		}
		if got := rules[4].Migration.To; got != "pool/mine" {
			t.Errorf("%s: the migration is to %q", name, got)
		}
		for field, value := range rules[1].Fields() {
			if field == "algorithm" && value != "pool/mine" {
				t.Errorf("%s: the rule is shown with %v", name, value)
			}
		}
	}
}

func TestAPairThatIsWrongIsReportedAtItsPlace(t *testing.T) {
	for text, says := range map[string]string{
		`{account: pool}`:                    `limits:1:42: rule "a": algorithm: has no weigh: add it`,
		`{account: pool, wiegh: fair-share}`: `limits:1:58: rule "a": algorithm: there is no field "wiegh": did you mean weigh?`,
		`{account: pool, weigh: [x]}`:        `limits:1:65: rule "a": algorithm.weigh: is a list`,
		`{account: Pool, weigh: x}`:          `limits:1:42: rule "a": algorithm: "Pool" is not the name`,
		`pool/fair/share`:                    `limits:1:42: rule "a": algorithm: "fair/share" is not the name`,
	} {
		_, err := Parse("limits", []byte(`limits: [{key: a, limit: 1/s, algorithm: `+text+`}]`))
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "^") {
			t.Errorf("%s: %v\nwant %s, with a caret", text, err, says)
		}
	}
	has := map[string]bool{"pool/fair-share": true, "pool/request-weighted": true, "pool/mine": true}
	for text, says := range map[string]string{
		`{account: poll, weigh: fair-share}`: `limits:1:42: there is no algorithm "poll/fair-share" here: no account is called "poll": did you mean pool?`,
		`{account: pool, weigh: fairshare}`:  `limits:1:42: there is no algorithm "pool/fairshare" here: pool has no weigher "fairshare": did you mean fair-share?`,
		`pool/telepathy`:                     `pool has no weigher "telepathy": use fair-share or request-weighted`,
	} {
		s, err := Parse("limits", []byte(`limits: [{key: a, limit: 1/s, algorithm: `+text+`}]`))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(func(name string) bool { return has[name] }); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "^") {
			t.Errorf("%s: %v\nwant %s, with a caret", text, err, says)
		}
	}
}

// What an account can share is known, whatever the weigher.
func TestPairsShareWhatTheirAccountDoes(t *testing.T) {
	for text, says := range map[string]string{
		`limits: [{key: a, limit: 5 in-flight, algorithm: pool/mine}]`:             "pool/mine shares rates and not slots",
		`limits: [{key: a, limit: 5 in-flight, algorithm: claims/mine}]`:           "",
		`limits: [{key: a, limit: 5/s, algorithm: average/mine, overcommit: 10%}]`: "overcommit: is for an algorithm that leases",
		`limits: [{key: a, limit: 5/s, algorithm: claims/mine, overcommit: 10%}]`:  "",
	} {
		_, err := Parse("limits", []byte(text))
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}
