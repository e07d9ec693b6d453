// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
)

// many is a plain config file of n rules.
func many(n int) []byte {
	var b strings.Builder
	b.WriteString("# of all teams\ndefaults: {fallback: closed}\nlimits:\n")
	for i := range n {
		switch i % 10 {
		case 1:
			fmt.Fprintf(&b, "  # of team %d\n  - {key: \"tenant-%06d:*\", limit: %d/m, max_keys: 50, shared: true} # a glob\n", i, i, i+1)
		case 2:
			fmt.Fprintf(&b, "  - key: 'tenant-%06d:é'\n    limit: 5 in-flight\n    migrate:\n      from: static\n      to: fair-share\n      mode: old\n\n", i)
		default:
			fmt.Fprintf(&b, "  - key: \"tenant-%06d:orders\"\n    limit: %d/s   # agreed\n    burst: 2000\n    algorithm: exact\n", i, i+1)
		}
	}
	b.WriteString("# the rest\nunmatched: {limit: 5/s, algorithm: mine}\nproperties: {a.b: 5}\n")
	b.WriteString("overrides:\n  - {key: \"tenant-000000:orders\", limit: 2x, until: 2026-11-21T06:00:00Z, author: ada, reason: the sale}\n")
	return []byte(b.String())
}

// meaning is what c says, without the places in the text.
func meaning(c *build.Content) any {
	values := make(map[string]any)
	for name, v := range c.Values {
		values[name] = v.V
	}
	return []any{c.Properties, c.Rules, c.Keys.Patterns, c.Unmatched, c.UnmatchedRule, c.Overrides, values, c.Private}
}

// uses are all of c.
func uses(c *build.Content) []build.Use {
	return slices.Collect(c.Uses(func(*build.Run) bool { return true }))
}

// places is meaning with the places in the text.
func places(c *build.Content) any { return []any{meaning(c), c.Places, uses(c), c.Values} }

func expectSame(t *testing.T, text []byte) {
	t.Helper()
	fast := parseLarge(text, nil)
	if fast.Problems.Any() {
		return // Parse asks the YAML library
	}
	whole := parseWhole(text)
	if whole.Problems.Any() {
		t.Fatalf("the YAML library finds mistakes in\n%s", text)
	}
	if !reflect.DeepEqual(meaning(fast.Content), meaning(whole.Content)) || len(uses(fast.Content)) != len(uses(whole.Content)) {
		t.Errorf("read in two ways, it differs\n%s", text)
	}
	for i, at := range fast.Content.Places { // the library's column is beside the key, if spaces follow that
		if at.Line != whole.Content.Places[i].Line {
			t.Errorf("rule %d is at %v, and at %v\n%s", i, at, whole.Content.Places[i], text)
		}
	}
}

func TestLargeFilesAreReadAsSmallOnesAre(t *testing.T) {
	text := many(2000)
	if len(text) < largeFile {
		t.Fatal("the file is not large")
	}
	fast, whole := parseLarge(text, nil), parseWhole(text)
	if fast.Problems.Any() || whole.Problems.Any() || len(fast.Content.Rules) != 2000 {
		t.Fatal("it is not plain")
	}
	if !reflect.DeepEqual(places(fast.Content), places(whole.Content)) {
		t.Error("read in two ways, it differs")
	}
}

// FuzzLarge reads texts in two ways, which must agree.
func FuzzLarge(f *testing.F) {
	f.Add(many(5))
	for _, text := range []string{
		"limits:\n- key: a\n  limit: 1/s\n- {key: b, limit: 2/s}\n",
		"limits:\n  - {key: a, limit: 1/s}\n    # deeper\n",
		"limits:\n  - key: a # x\n    limit: 1/s\n    burst: 1e3\n    private: false\n",
		"limits:\n  - key: \"a\"\"b\"\n    limit: 1/s\n",
		"limits:\n  - key: 'a''b'\n    limit: 1/s\n",
		"limits:\n  - key: a\n    limit: 1/s\n    description: |\n      a\n      b\n",
		"limits:\n  - key: a\n    limit:\n      1/s\n",
		"limits:\n  - key: a\n      b\n    limit: 1/s\n",
		"limits:\n  - {key: a,\n     limit: 1/s}\nunmatched: deny",
		"limits:\n  - {key: null, limit: 0x10}\n",
		"limits:\n\n  # c\n  - key: a\n    # d\n\n    limit: 1/s",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) < largeFile {
			expectSame(t, text)
		}
	})
}

func TestLargeFilesOfAFolderAreReadAsSmallOnesAre(t *testing.T) {
	large := string(many(2000))
	other := strings.NewReplacer("tenant-", "other-", "unmatched: {limit: 5/s, algorithm: mine}", "", "a.b", "c.d", "{fallback: closed}", "{update_interval: 5s}").Replace(large)
	// A comment behind limits: is not plain, and means nothing.
	slow := func(text string) []byte { return []byte(strings.Replace(text, "limits:\n", "limits: # all\n", 1)) }
	_, fast := Files([]File{{"a", []byte(large)}, {"b", []byte(other)}}, nil, nil)
	_, whole := Files([]File{{"a", slow(large)}, {"b", slow(other)}}, nil, nil)
	if fast.Problems.Any() || whole.Problems.Any() || len(fast.Content.Rules) != 4000 {
		t.Fatal("they have problems")
	}
	if !reflect.DeepEqual(places(fast.Content), places(whole.Content)) {
		t.Error("read in two ways, they differ")
	}
	if p := newPart(File{"a", []byte(large)}, nil); p.rules == nil {
		t.Error("the YAML library reads the rules of a large file")
	}

	bad := strings.Replace(large, "limit: 5/s   # agreed", "limit: 5rps", 1)
	for _, text := range [][]byte{[]byte(bad), slow(bad)} {
		parts, _ := Files([]File{{"a", text}, {"b", []byte(other)}}, nil, nil)
		var found []string
		parts[0].Problems.Each(func(at build.Mark, message, _ string) { found = append(found, fmt.Sprint(at, message)) })
		if len(found) != 1 || !strings.Contains(found[0], "did you mean 5/s?") || parts[1].Problems.Any() {
			t.Errorf("its mistakes are %q", found)
		}
	}
}
