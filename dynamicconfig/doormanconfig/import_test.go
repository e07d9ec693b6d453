// SPDX-License-Identifier: Apache-2.0

package doormanconfig

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/importedtest"
)

func TestGoldens(t *testing.T) { importedtest.Goldens(t, "resources.yaml", Import) }

// resourceYAML is one resource, all of whose fields are given.
func resourceYAML(glob, capacity, kind string, lease, refresh int64) string {
	return fmt.Sprintf("  - identifier_glob: %q\n    capacity: %s\n    algorithm: {kind: %s, lease_length: %d, refresh_interval: %d}\n", glob, capacity, kind, lease, refresh)
}

func imported(t importedtest.Failing, text string) *dynamicconfig.Snapshot {
	t.Helper()
	return importedtest.Snapshot(t, "resources.yaml", Import, text)
}

func TestEachFieldBecomesItsOwn(t *testing.T) {
	s := imported(t, `
resources:
  - identifier_glob: db
    capacity: 0.1
    safe_capacity: 12
    description: "one\ntwo: \"three\" # four \\ \u00e9"
    algorithm:
      kind: FAIR_SHARE
      lease_length: 60
      refresh_interval: 16
      learning_mode_duration: 45
      parameters: [{name: decay_factor, value: 0.5}, {name: x}]
  - {identifier_glob: open, capacity: 7, safe_capacity: -1}
  - {identifier_glob: closed, capacity: 0, safe_capacity: 0, algorithm: {kind: 2, lease_length: 3, refresh_interval: 3, learning_mode_duration: -1}}
  - {identifier_glob: "*", capacity: 1e12, algorithm: {kind: STATIC, lease_length: 100000, refresh_interval: 5, learning_mode_duration: 9999999999999}}
`)
	match := func(key string) dynamicconfig.Rule {
		r, _ := s.Match(key)
		return *r
	}
	if r := match("db"); r.Limit != 0.1 || r.Fallback != dynamicconfig.FallbackSafe || r.SafeCapacity != 12 || r.Algorithm != "fair-share" ||
		r.Lease != time.Minute || r.Refresh != 16*time.Second || r.Learning != 45*time.Second || r.Description != "one\ntwo: \"three\" # four \\ é" || r.InFlight || r.Shared || r.Parameters != nil {
		t.Errorf("rule = %+v", r)
	}
	if r := match("open"); r.Limit != 7 || r.Fallback != dynamicconfig.FallbackOpen || r.Algorithm != "static" || r.Lease != 24*time.Hour || r.Refresh != 5*time.Second {
		t.Errorf("rule = %+v", r)
	}
	if r := match("closed"); r.Limit != 0 || r.Fallback != dynamicconfig.FallbackClosed || r.Algorithm != "proportional-share" || r.Lease != 3*time.Second || r.Refresh != 1500*time.Millisecond || r.Learning != dynamicconfig.None {
		t.Errorf("rule = %+v", r)
	}
	if r := match("any"); r.Limit != 1e12 || r.Fallback != dynamicconfig.FallbackEven || r.Algorithm != "static" || r.Learning != 24*time.Hour {
		t.Errorf("rule = %+v", r)
	}
}

func TestLongDescriptionsAreCutBetweenCharacters(t *testing.T) {
	long := strings.Repeat("é", 3000)
	s := imported(t, "resources: [{identifier_glob: '*', capacity: 1, description: "+long+", algorithm: {kind: STATIC, lease_length: 60, refresh_interval: 16}}]")
	if got := s.Rules()[0].Description; got != long[:4096] {
		t.Errorf("%d bytes are left", len(got))
	}
	s = imported(t, "resources: [{identifier_glob: '*', capacity: 1, description: x"+long+", algorithm: {kind: STATIC, lease_length: 60, refresh_interval: 16}}]")
	if got := s.Rules()[0].Description; got != "x"+long[:4094] {
		t.Errorf("%d bytes are left", len(got))
	}
}

// doorman finds the resource of a name as Doorman does: an equal one, else
// the first that matches.
func doorman(globs []string, name string) int {
	for i, g := range globs {
		if g == name {
			return i
		}
	}
	for i, g := range globs {
		if ok, err := path.Match(g, name); err == nil && ok {
			return i
		}
	}
	return -1
}

// pieces are what globs are made of, each with what it stands for, and with
// what it might be mistaken to stand for.
var pieces = map[string][]string{
	"a": {"a"}, "b": {"b"}, "/": {"/"}, "*": {"", "a", "ab", "a/b", "/"}, "?": {"a", "b", "/"}, "[ab]": {"a", "b"}, "[^ab/]": {"c", "-"},
	`\a`: {"a"}, "a-": {"a-"}, "[b-d]": {"b", "c"}, `[\-\]!]`: {"-", "]", "!"}, "!": {"!"}, "-": {"-"}, "{": {"{"}, "^": {"^"}, "]": {"]"},
	`[a\-c]`: {"a", "-", "b"}, "[!a]": {"!", "a", "b"}, `[\\b]`: {`\`, "b"}, `\\`: {`\`},
}

// Whatever the globs, a name that has a resource there has the same one here, unless it is
// one of them.
func TestNamesHaveTheSameResource(t *testing.T) {
	common := rapid.SampledFrom([]string{"a", "/", "*", "?"})
	piece := rapid.OneOf(common, common, rapid.SampledFrom(slices.Sorted(maps.Keys(pieces))))
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.SliceOfN(rapid.SliceOfN(piece, 1, 5), 1, 8).Draw(t, "globs")
		var globs []string
		taken := map[string]bool{"*": true}
		for _, p := range drawn {
			g := strings.Join(p, "")
			if _, err := path.Match(g, ""); err != nil {
				t.Fatalf("%q: %v", g, err)
			}
			ours, err := translate(g)
			if err != nil {
				t.Fatalf("%q: %v", g, err)
			}
			if !taken[ours.key] {
				taken[ours.key] = true
				globs = append(globs, g)
			}
		}
		globs = append(globs, "*")
		var b strings.Builder
		b.WriteString("resources:\n")
		for i, g := range globs {
			b.WriteString(resourceYAML(g, fmt.Sprint(i), "STATIC", 60, 16))
		}
		s := imported(t, b.String())
		for range 20 {
			var name string
			for _, p := range rapid.SampledFrom(drawn).Draw(t, "like") {
				name += rapid.SampledFrom(pieces[p]).Draw(t, "piece")
			}
			want := doorman(globs, name)
			if want < 0 {
				continue // unknown there, and "*" here
			}
			if globs[want] == name && strings.ContainsAny(name, `*?[\`) {
				continue // a glob there, taken as a name: see the package comment
			}
			if r, ok := s.Match(name); !ok || int(r.Limit) != want {
				t.Fatalf("%q of %q: resource %d there, rule %q with the limit %v here", name, globs, want, r.Key, r.Limit)
			}
		}
	})
}

// What path.Match refuses, translate does too.
func TestBadGlobsAreRefused(t *testing.T) {
	for _, g := range []string{"[", "[]", "[a", "[^]", "[a-]", "[-a]", "[]a]", `a\`, `[\`, "[^", "[a-", `[a-\`, "a[b"} {
		if _, err := path.Match(g, strings.Repeat("a", 9)); err == nil {
			t.Errorf("path.Match takes %q", g)
		}
		if got, err := translate(g); err == nil {
			t.Errorf("%q became %q", g, got.key)
		}
	}
	for _, g := range []string{"[b-a]", "[é]"} {
		if got, err := translate(g); err == nil {
			t.Errorf("%q became %q", g, got.key)
		}
	}
}

// Whatever numbers come in, what is taken becomes a rule with that meaning.
func TestNumbersKeepTheirValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.OneOf(rapid.Float64Range(0, 1e12), rapid.Float64(), rapid.SampledFrom([]float64{0, 1e-8, 1e-9, 1e12, 1.1e12, -1, 5e-324, math.MaxFloat64})).Draw(t, "capacity")
		const longest = math.MaxInt64 / int64(time.Second) // more counts as that
		seconds := rapid.OneOf(rapid.Int64Range(-1, 100), rapid.Int64Range(1, 200_000), rapid.Int64(), rapid.Int64Range(longest-2, longest+2))
		lease, refresh := seconds.Draw(t, "lease"), seconds.Draw(t, "refresh")
		text := "resources:\n" + resourceYAML("*", fmt.Sprint(capacity), "FAIR_SHARE", lease, refresh)
		out, err := Import("f", []byte(text))
		valid := (capacity == 0 || capacity >= 1e-8 && capacity <= 1e12) && lease >= 1 && refresh >= 1 && min(refresh, longest) <= lease
		if valid != (err == nil) {
			t.Fatalf("Import = %v for\n%s", err, text)
		}
		if err != nil {
			return
		}
		s, err := dynamicconfig.Parse("limits.yaml", out)
		if err != nil {
			t.Fatalf("%v", err)
		}
		r := s.Rules()[0]
		wantLease := min(float64(lease), 86400)
		if float64(r.Limit) != capacity || r.Lease.Seconds() != wantLease || r.Refresh.Seconds() != min(float64(refresh), wantLease/2) {
			t.Fatalf("%s became %+v", text, r)
		}
	})
}

// What aliases repeat is read no more than so often.
func TestAliasesThatRepeatMuchAreRefusedAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("each is half a MiB")
	}
	for name, item := range map[string]string{"values": "x,", "maps": "{name: x},", "wrong maps": "{y: x},"} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString("resources:\n  - {algorithm: {parameters: &p [" + strings.Repeat(item, 400_000/len(item)) + "]}}\n")
			for range 10_000 {
				b.WriteString("  - {algorithm: {parameters: *p}}\n")
			}
			data := []byte(b.String())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Import("bomb", data)
			runtime.ReadMemStats(&after)
			if n := after.Mallocs - before.Mallocs; err == nil || n > 20*uint64(len(data)) {
				t.Errorf("Import = %.200v after %d allocations", err, n)
			}
		})
	}
	if _, err := Import("big", make([]byte, dynamicconfig.MaxSize+1)); err == nil || !strings.Contains(err.Error(), "has 1048577 bytes") {
		t.Errorf("Import = %v", err)
	}
}

// Import never panics, and what it makes can be read.
func FuzzImport(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Import("f", data)
		if err != nil {
			if one := new(dynamicconfig.Error); !errors.As(err, &one) || strings.Contains(err.Error(), "defect") {
				t.Fatal(err)
			}
			return
		}
		s, err := dynamicconfig.Parse("limits.yaml", out)
		if err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
		if rules := s.Rules(); len(rules) == 0 || rules[len(rules)-1].Key != "*" {
			t.Fatalf("rules = %+v", rules)
		}
	})
}
