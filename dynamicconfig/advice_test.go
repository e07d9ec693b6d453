// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"strings"
	"testing"
)

// What a message says to write is what the author meant, and one mistake is told once.
func TestAMistakeIsToldOnceWithWhatToWrite(t *testing.T) {
	for text, want := range map[string]string{
		`limits: [{key: a, limit: 1/s, max_keys: 99999999999999999999}]`:                                      `max_keys: 99999999999999999999 is out of range: use a whole number, as in 10000`,
		`limits: [{key: a, limit: 1/s, priority: -99999999999999999999}]`:                                     `priority: -99999999999999999999 is out of range: use a whole number, as in 10`,
		`limits: [{key: a, limit: unlimited}]`:                                                                `limit: "unlimited" is no limit: write one, as in 1000/s, and enforce: 0% beside it, which refuses nothing`,
		`limits: [{key: a, limit: None, burst: 1}]`:                                                           `limit: "None" is no limit: write one`,
		`limits: [{key: 5, limit: 1/s}]`:                                                                      `rule "5": key: is 5: write it in quotes, as in "5"`,
		`limits: [{key: *all, limit: 1/s}]`:                                                                   `is not in quotes: write it in quotes, as in "*all"`,
		`limits: [{key: a, limit: 1/s, algorithm: Exact}]`:                                                    `algorithm: "Exact" is not the name of an algorithm: did you mean exact?`,
		`limits: [{key: a, limit: 1/s, algorithm: fair_share}]`:                                               `algorithm: "fair_share" is not the name of an algorithm: did you mean fair-share?`,
		`limits: [{key: a, limit: 1/s, algorithm: {weigh: fair-share}}]`:                                      `algorithm: has no account: add it`,
		`limits: [{key: a, limit: 1/s, algorithm: {account: pool}}]`:                                          `algorithm: has no weigh: add it`,
		`limits: [{key: a, limit: 1/s, migrate: even}]`:                                                       `migrate: is the text "even": write a map`,
		`limits: [{key: a, limit: 1/s, migrate: {from: even, mode: old}}]`:                                    `migrate: has no to: add it`,
		`{limits: [], overrides: [{key: a, limit: 2, until: 2026-11-23T05:00:00Z, author: a, reason: r}]}`:    `limit: "2" has no unit: write events per second, minute, hour or day, as in 1000/s, 5/m or 100/h, or slots, as in 100 in-flight; or a factor, as in 2x, or bypass`,
		`{limits: [], overrides: [{key: a, limit: [2x], until: 2026-11-23T05:00:00Z, author: a, reason: r}]}`: `limit: is a list: write a factor, as in 2x, a limit, as in 500/s, or bypass`,
		`{limits: [], overrides: [{key: a, limit: 2x, until: 2026, author: a, reason: r}]}`:                   `until: "2026" is not a time: write it as in 2026-11-23T05:00:00Z`,
		`limits: [{key: a, limit: 1/s, burst: "20"}]`:                                                         `burst: is the text "20": write 1 or more tokens, as in 2000, without quotes`,
		`limits: [{key: a*, limit: 1/s, shared: "true"}]`:                                                     `shared: is the text "true": write true or false, without quotes`,
		`limits: [{key: a, rate: 1/s}]`:                                                                       `rule "a": there is no field "rate": did you mean limit?`,
		`limits: [{pattern: a, limit: 1/s}]`:                                                                  `rule number 1: there is no field "pattern": did you mean key?`,
		`limits: [a:b: 10/s]`:                                                                                 `rule number 1: write - {key: "a:b", limit: 10/s}`,
		`limits: [{key: a, limit: 10/s burst: 5}]`:                                                            `limit: "10/s burst: 5" has another field in it: put a comma before that`,
		`rules: [{key: a, limit: 1/s}]`:                                                                       `the file: there is no field "rules": did you mean limits?`,
		`limits: [{key: a, limit: 1/s, maxCost: 1}]`:                                                          `rule "a": there is no field "maxCost": did you mean max_cost?`,
		`limits: [{key: a, limit: 1/s, algorithm: sliding_window}]`:                                           `algorithm: "sliding_window" is not the name of an algorithm: use auto, drop-ratio, elastic`,
		`limits: [{key: a, limit: "${LIMIT}/s"}]`:                                                             `limit: "${LIMIT}/s" has a variable, which nothing fills in here: write the limit`,
		`limits: [{key: a, limit: 100/5m}]`:                                                                   `limit: "100/5m" is not written as a limit: did you mean 20/m?`,
		`limits: [{key: a, limit: "1,000/s"}]`:                                                                `limit: "1,000/s" is not written as a limit: did you mean 1000/s?`,
		`limits: [{key: a, limit: 1/s, update_interval: 1s}]`:                                                 `rule "a": update_interval: is a setting of the whole cluster: move it to defaults`,
		`limits: [{key: a, limit: 1/s, unmatched: deny}]`:                                                     `rule "a": unmatched: stands at the top of the file: move it there`,
		`{limits: [], fallback: closed}`:                                                                      `the file: fallback: is a field of rules: move it to a rule, or to defaults`,
		`{limits: [], burst: 5}`:                                                                              `the file: burst: belongs to one rule: move it there`,
		"limits\n  - key: a\n    limit: 1/s":                                                                  `put a : after the name of a field`,
		"limits:\n  - key: a\n    limit: 1/s\n    migrate\n      from: even":                                  `put a : after the name of a field`,
		"limits:\n  - key: a\n    limit:1/s":                                                                  `put a space after the - that begins an item, and after the : of a field`,
		"limits:\n  -key: a\n   limit: 1/s":                                                                   `put a space after the - that begins an item, and after the : of a field`,
		"limits:\n  - key:\"a\"\n    limit: 1/s":                                                              `put a space after the - that begins an item, and after the : of a field`,
	} {
		_, err := ParseChecked("limits", []byte(text), func(s *Snapshot) error {
			return s.Check(func(name string) bool { return name == "auto" || name == "even" })
		})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count("\n"+err.Error(), "\nlimits:") != 1 {
			t.Errorf("%s:\n%v\nwant one mistake, that says %s", text, err, want)
		}
	}
}
