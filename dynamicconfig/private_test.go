// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"strings"
	"testing"
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
