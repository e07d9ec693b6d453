// SPDX-License-Identifier: Apache-2.0

package rule

import (
	"sync"
	"testing"

	"github.com/headgate/headgate/dynamicconfig/internal/glob"
)

func TestARuleHidesWhatItsPatternDoesNotSay(t *testing.T) {
	for _, pattern := range []string{"", "a", "a:*", "*", "a?b*", "?", "a[bc]d", "[!a]*", `a\*`, `a\*b*`, `a\?`, "[", `a\`, "é:*"} {
		r := &Rule{Key: pattern, Private: true}
		prefix, hides := r.hides()
		g, err := glob.Compile(pattern)
		if want := err != nil || !g.Exact(); hides != want || r.Hides() != want {
			t.Errorf("%q hides: %v", pattern, hides)
		}
		if err == nil && hides && prefix != g.Prefix() {
			t.Errorf("%q begins with %q, want %q", pattern, prefix, g.Prefix())
		}
		if r.Private = false; r.Hides() || r.Shown("a:secret") != "a:secret" {
			t.Errorf("%q hides keys, and is not private", pattern)
		}
	}
}

// Hashes are used again, also while the salt changes.
func TestAKeyIsShownAlikeEachTime(t *testing.T) {
	r := &Rule{Key: "a:*", Private: true}
	shown := func(salt string) string {
		SaltKeys([]byte(salt))
		return r.Shown("a:secret")
	}
	one, other := shown("one"), shown("other")
	if one == other || one[:3] != "a:#" || len(one) != 15 || shown("one") != one || r.Shown("a:secret") != one || r.Shown("b:secret") == one {
		t.Errorf("it is shown as %s, and as %s with another salt", one, other)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				if got := r.Shown("a:secret"); got != one {
					t.Errorf("it is shown as %s", got)
				}
			}
		})
	}
	all.Wait()
}

// Pages and metrics show 100,000 keys at once.
func TestAPrivateKeyIsShownWithoutMuchMemory(t *testing.T) {
	r := &Rule{Key: "a:*", Private: true}
	if n := testing.AllocsPerRun(1000, func() { r.Shown("a:secret") }); n > 4 {
		t.Errorf("it takes %v allocations", n)
	}
}
