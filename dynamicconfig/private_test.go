// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig/internal/brief"
)

func TestPrivateKeysAreShownAsHashes(t *testing.T) {
	s, err := Parse("l", []byte(`
defaults: {private: true}
limits:
  - {key: "open:*", limit: 1/s, private: false}
  - {key: "login:*", limit: 1/s}
  - {key: exact, limit: 1/s}
`))
	if err != nil {
		t.Fatal(err)
	}
	SaltKeys([]byte("one"))
	for key, prefix := range map[string]string{"login:alice": "login:#", "nobody:alice": "#"} {
		shown := s.Shown(key)
		if !strings.HasPrefix(shown, prefix) || strings.Contains(shown, "alice") || len(shown) != len(prefix)+12 {
			t.Errorf("%s is shown as %s", key, shown)
		}
		if again := s.Shown(key); again != shown {
			t.Errorf("%s is shown as %s, and as %s", key, shown, again)
		}
		SaltKeys([]byte("two"))
		if other := s.Shown(key); other == shown {
			t.Errorf("%s is shown as %s whatever the secret", key, other)
		}
		SaltKeys([]byte("one"))
	}
	if a, b := s.Shown("login:alice"), s.Shown("login:bob"); a == b {
		t.Errorf("two keys are shown as %s", a)
	}
	for _, key := range []string{"open:alice", "exact"} {
		if got := s.Shown(key); got != key {
			t.Errorf("%s is shown as %s", key, got)
		}
	}
	if _, err := Parse("l", []byte("limits:\n  - {key: a, limit: 1/s, private: true}\n")); err == nil || !strings.Contains(err.Error(), "private") {
		t.Errorf("one exact key is private: %v", err)
	}
}

// Whether keys without a rule are private is part of the limits: a change of that alone is a
// change, which a Live takes, a diff shows, and a copy of the limits keeps.
func TestPrivateDefaultsAreAChangeOfTheirOwn(t *testing.T) {
	for _, rules := range []string{
		"limits: []\n",
		"limits:\n  - {key: 'a*', limit: 1/s, private: true}\n",
		"limits:\n  - {key: 'a*', limit: 1/s, private: false}\n  - {key: b, limit: 1/s, private: false}\nunmatched: deny\n",
		"limits:\n  - {key: b, limit: 1/s}\n",
		"limits:\n  - {key: 'a*', limit: 1/s}\nunmatched: {limit: 1/s, private: false}\n",
	} {
		open, private := mustParse(t, rules), mustParse(t, "defaults: {private: true}\n"+rules)
		if open.Version() == private.Version() {
			t.Errorf("%s: both have the version %s", rules, open.Version())
		}
		for i, both := range [][2]*Snapshot{{open, private}, {private, open}} {
			if shown := brief.List(Diff(both[0], both[1]), 9, "; "); !strings.Contains(shown, []string{"defaults: private unset → true", "defaults: private true → unset"}[i]) {
				t.Errorf("%s: the diff is %q", rules, shown)
			}
		}
		live := NewLive(open)
		if err := live.Set(private); err != nil || live.Current().Version() != private.Version() {
			t.Errorf("%s: the defaults are not in force: %v", rules, err)
		}
		for _, s := range []*Snapshot{open, private} {
			again, err := Parse("again", s.YAML())
			if err != nil || again.Version() != s.Version() {
				t.Errorf("what is written is not the same: %v in\n%s", err, s.YAML())
				continue
			}
			for _, key := range []string{"abc", "b", "none"} {
				if a, b := s.Shown(key), again.Shown(key); a != b {
					t.Errorf("%s: %s is shown as %s, and of what was written as %s", rules, key, a, b)
				}
			}
		}
	}
}
