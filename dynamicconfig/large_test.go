// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// many is a plain config file of n rules.
func many(n int) []byte {
	var b strings.Builder
	b.WriteString("# of all teams\ndefaults: {fallback: closed}\nlimits:\n")
	for i := range n {
		switch i % 100 {
		case 1:
			fmt.Fprintf(&b, "  # of team %d\n  - {key: \"tenant-%06d:*\", limit: %d/m, max_keys: 50, shared: true} # a glob\n", i, i, i+1)
		case 2:
			fmt.Fprintf(&b, "  - key: 'tenant-%06d:é'\n    limit: 5 in-flight\n    migrate:\n      from: static\n      to: fair-share\n      mode: old\n\n", i)
		default:
			fmt.Fprintf(&b, "  - key: \"tenant-%06d:orders\"\n    limit: %d/s   # agreed\n    burst: %d\n    algorithm: exact\n", i, i%1000+1, 2000)
		}
	}
	b.WriteString("# the rest\nunmatched: {limit: 5/s, algorithm: mine}\nproperties: {a.b: 5}\n")
	return []byte(b.String())
}

func TestLargeFilesSayTheirMistakes(t *testing.T) {
	small, large := many(2000), many(40_000)
	if len(large) < MaxSize {
		t.Fatal("the file is not large")
	}
	for _, text := range [][]byte{small, large} {
		bad := strings.Replace(string(text), "limit: 5/s   # agreed", "limit: 5rps", 1)
		bad = strings.Replace(bad, "max_keys: 50,", "max_key: 50,", 1)
		_, err := Parse("limits", []byte(bad))
		var want []string
		for n, line := range strings.Split(bad, "\n") {
			if strings.HasSuffix(line, "limit: 5rps") {
				want = append(want, fmt.Sprintf("limits:%d:12: rule \"tenant-000004:orders\": limit: \"5rps\" is not written as a limit: did you mean 5/s?\n", n+1))
			}
			if strings.Contains(line, "max_key: 50") {
				want = append(want, fmt.Sprintf("limits:%d:42: rule \"tenant-000001:*\": there is no field \"max_key\": did you mean max_keys?\n", n+1))
			}
		}
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v, want %s", err, w)
			}
		}
	}
	for from, c := range map[string]struct{ to, want string }{
		"    burst: 2000\n": {"   burst: 2000\n", "is not understood in a file of more than 1048576 bytes"},
		"limits:\n":         {"limits: &a\n", "use at most 1048576, or write limits: in a line of its own"},
	} {
		if _, err := Parse("limits", []byte(strings.Replace(string(large), from, c.to, 1))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.to, err)
		}
	}
	if _, err := Parse("limits", make([]byte, MaxLargeSize+1)); err == nil || !strings.Contains(err.Error(), "use at most 16777216") {
		t.Errorf("too large: %v", err)
	}
}

// BenchmarkParse reads a small file and a large one, and again after a change of one rule; and BenchmarkMatchInParsed
// looks a key up in each.
func BenchmarkParse(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		text := string(many(n))
		each := func(name string, change func(i int) string) {
			b.Run(fmt.Sprintf("rules=%d/%s", n, name), func(b *testing.B) {
				b.ReportAllocs()
				last, err := Parse("limits", []byte(text))
				if err != nil {
					b.Fatal(err)
				}
				for i := 0; b.Loop(); i++ {
					b.StopTimer()
					next := []byte(change(i))
					b.StartTimer()
					if last, err = Parse("limits", next); err != nil {
						b.Fatal(err)
					}
				}
				runtime.KeepAlive(last)
			})
		}
		each("first", func(i int) string { return strings.ReplaceAll(text, "tenant-", fmt.Sprintf("team-%d-", i)) })
		each("changed", func(i int) string { return strings.Replace(text, "limit: 51/s", fmt.Sprintf("limit: %d/s", 52+i), 1) })
	}
}

func BenchmarkMatchInParsed(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		s, err := Parse("limits", many(n))
		if err != nil {
			b.Fatal(err)
		}
		for name, key := range map[string]string{"exact": "tenant-000050:orders", "glob": "tenant-000001:x", "none": "somebody:x"} {
			b.Run(fmt.Sprintf("rules=%d/%s", n, name), func(b *testing.B) {
				for b.Loop() {
					s.Match(key)
				}
			})
		}
	}
}

func TestOneLargeTextIsParsedOnce(t *testing.T) {
	var text strings.Builder
	text.WriteString("limits:\n")
	for i := range 5000 {
		fmt.Fprintf(&text, "  - {key: k%d, limit: 5/s}\n", i)
	}
	first, err := Parse("first", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	second, err := Parse("second", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	one, _ := first.Match("k7")
	other, _ := second.Match("k7")
	if one != other {
		t.Error("the same text was parsed again, while its limits are in use")
	}
	if first.Name() != "first" || second.Name() != "second" || first.Version() != second.Version() || second.Text() != text.String() {
		t.Errorf("they are called %q and %q", first.Name(), second.Name())
	}
	if third, err := Parse("third", []byte(strings.Replace(text.String(), "5/s", "6/s", 1))); err != nil || third.Version() == first.Version() {
		t.Errorf("another text has the same version, or the error %v", err)
	}
}

// A change of one rule costs what it touches: reading the text again is cheap beside reading it first, and so is each
// comparison with the limits before it, of which a change has four.
func TestAChangeOfOneRuleIsReadFast(t *testing.T) {
	parse := func(text string) (*Snapshot, time.Duration) {
		began := time.Now()
		s, err := Parse("limits", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s, time.Since(began)
	}
	first, again, diffing, warning := time.Hour, time.Hour, time.Hour, time.Hour
	for i := range 5 { // on a busy machine, the shortest of several tells
		text := strings.ReplaceAll(string(many(20_000)), "tenant-", fmt.Sprintf("team-%d-", i))
		old, took := parse(text)
		first = min(first, took)
		old.Warnings()
		new, took := parse(strings.Replace(text, "limit: 51/s", "limit: 7/s", 1))
		again = min(again, took)
		began := time.Now()
		changes := Diff(old, new)
		diffing = min(diffing, time.Since(began))
		began = time.Now()
		NewWarnings(old, new)
		warning = min(warning, time.Since(began))
		if len(changes) != 1 || changes[0].Name != fmt.Sprintf("team-%d-000050:orders", i) {
			t.Fatal(changes)
		}
		if fresh := len(Fresh(new, old)); fresh == 0 || fresh > 64 {
			t.Errorf("%d rules are others", fresh)
		}
	}
	t.Logf("first %v, again %v, comparing %v, warnings %v", first, again, diffing, warning)
	if again > first/4 || diffing > first/20 || warning > first/20 {
		t.Errorf("the text takes %v, and %v after a change; comparing takes %v, and new warnings %v", first, again, diffing, warning)
	}
}

func TestAChangeOfOneFileIsReadFast(t *testing.T) {
	parse := func(files []File) (*Snapshot, time.Duration) {
		began := time.Now()
		s, err := ParseFiles("folder", files)
		if err != nil {
			t.Fatal(err)
		}
		return s, time.Since(began)
	}
	first, again := time.Hour, time.Hour
	for round := range 5 { // on a busy machine, the shortest of several tells
		var files []File
		for i, rules := range []int{50, 5000, 5000, 5000} {
			text := strings.ReplaceAll(string(many(rules)), "tenant-", fmt.Sprintf("team-%d-%d-", round, i))
			text, _, _ = strings.Cut(text, "# the rest")
			files = append(files, File{Name: fmt.Sprint(i), Data: []byte(text)})
		}
		old, took := parse(files)
		first = min(first, took)
		files[1].Data = []byte(strings.Replace(string(files[1].Data), "limit: 51/s", "limit: 7/s", 1))
		new, took := parse(files)
		again = min(again, took)
		if changes := Diff(old, new); len(changes) != 1 || changes[0].Name != fmt.Sprintf("team-%d-1-000050:orders", round) {
			t.Fatal(changes)
		}
		if fresh := len(Fresh(new, old)); fresh == 0 || fresh > 64 {
			t.Errorf("%d rules are others", fresh)
		}
	}
	t.Logf("first %v, again %v", first, again)
	if again > first/3 {
		t.Errorf("the files take %v, and %v after a change of one rule", first, again)
	}
}
