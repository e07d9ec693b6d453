// SPDX-License-Identifier: Apache-2.0

package keytemplate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// from are the attributes of a map.
func from(m map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

func mustParse(t testing.TB, text string) *Template {
	t.Helper()
	tmpl, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

func TestKeys(t *testing.T) {
	long := strings.Repeat("x", 65)
	for _, tt := range []struct {
		template, value string
		want            string
	}{
		{"login:{v}", "alice", "login:alice"},
		{"login:{v}:{v}:end", "a@b.c", "login:a@b.c:a@b.c:end"},
		{"login:{v}", "", "login:"},
		{"login:{v}", "a:b", "login:a%3Ab"},
		{"login:{v}", "a%3Ab", "login:a%253Ab"},
		{"login:{v}", "a b\n\x00é*?[]\\{}", "login:a%20b%0A%00%C3%A9%2A%3F%5B%5D%5C%7B%7D"},
		{"login:{v}", "%-", "login:%25-"},
		{"login:{none?}", "", "login:%-"},
		{"login:{v}", long[:64], "login:" + long[:64]},
		{"login:{v}", long, "login:%hl1N_fFvzS3YkVO51s0rtFA"},
		{"login:{ip}", "192.0.2.77", "login:192.0.2.77"},
		{"login:{ip}", "192.0.2.77:443", "login:192.0.2.77"},
		{"login:{ip/24}", "192.0.2.77", "login:192.0.2.0/24"},
		{"login:{ip/24}", "::ffff:192.0.2.77", "login:192.0.2.0/24"},
		{"login:{ip/24}", "2001:DB8:0:1:2::9", "login:2001-db8-0-1--/64"},
		{"login:{ip/24,48}", "[2001:db8:1:2::9%eth0]:80", "login:2001-db8-1--/48"},
		{"login:{ip}", "2001:0db8::0:9", "login:2001-db8--9"},
		{"login:{ip/32,128}", "fe80::1%eth0", "login:fe80--1"},
		{"login:{header.x-real-ip/8}", "10.1.2.3", "login:10.0.0.0/8"},
		{"all:", "", "all:"},
	} {
		attributes := map[string]string{"v": tt.value, "ip": tt.value, "header.x-real-ip": tt.value}
		if got, err := mustParse(t, tt.template).Key(from(attributes)); err != nil || got != tt.want && !strings.HasPrefix(tt.want, "login:%h") {
			t.Errorf("%s of %q = %q, %v; want %q", tt.template, tt.value, got, err, tt.want)
		} else if strings.HasPrefix(tt.want, "login:%h") && (len(got) != len(tt.want) || got[:8] != "login:%h") {
			t.Errorf("a hash is %q", got)
		}
	}
}

func TestMissingAttributesAndAddresses(t *testing.T) {
	key := []byte("before ")
	got, err := mustParse(t, "login:{ip}:{user}").AppendKey(key, from(map[string]string{"ip": "::1"}))
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "{user}") || string(got) != "before " {
		t.Errorf("%q, %v", got, err)
	}
	for _, value := range []string{"", "nobody", "1.2.3", "1.2.3.4.5", "1.2.3.4, 5.6.7.8", "256.1.1.1", "[::1]", "::1:80:"} {
		if got, err := mustParse(t, "login:{ip/24}").Key(from(map[string]string{"ip": value})); !errors.Is(err, ErrNoAddress) {
			t.Errorf("%q made %q, %v", value, got, err)
		}
	}
}

func TestBadTemplatesSayWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "write one",
		"{user}":                        "no : before {user}",
		"login{user}":                   "no : before {user}",
		"login:{a}{b}":                  "no : before {b}",
		"login:{a}-{b}":                 "no : before {b}",
		"login:{a":                      "has no }",
		"login:a}":                      `"}" cannot stand`,
		"login:a b":                     `" " cannot stand`,
		"login:a%20":                    `"%" cannot stand`,
		"login:\x7f":                    "cannot stand",
		"login:é":                       "cannot stand",
		"login:{}":                      "0 bytes",
		"login:{User}":                  `"U" cannot stand in a name`,
		"login:{a{b}":                   "cannot stand in a name",
		"login:{ip/}":                   "bits of a network",
		"login:{ip/33}":                 "bits of a network",
		"login:{ip/0}":                  "bits of a network",
		"login:{ip/024}":                "bits of a network",
		"login:{ip/24,129}":             "bits of a network",
		"login:{ip/24,}":                "bits of a network",
		"login:{ip/24,48,1}":            "bits of a network",
		strings.Repeat("a", 1025):       "1025 bytes",
		strings.Repeat(":{a}", 16):      "1040 bytes",
		"a:{" + strings.Repeat("a", 65): "has no }",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%.40q) = %v, want %q", text, err, want)
		}
	}
}

func TestNames(t *testing.T) {
	tmpl := mustParse(t, "a:{user}:{ip/24}:{user?}:x")
	if got := tmpl.Names(); !slices.Equal(got, []string{"ip", "user"}) || tmpl.String() != "a:{user}:{ip/24}:{user?}:x" {
		t.Errorf("%v of %v", got, tmpl)
	}
}

// Different values, or none, make different keys; and no value makes a key that
// has another shape than the template.
func TestNoValueMakesAnothersKey(t *testing.T) {
	tmpl := mustParse(t, "login:{a?}:x{b?}:{c?}")
	value := rapid.OneOf(rapid.SampledFrom([]string{"", ":", "%", "%-", "%h", "x", ":x", "a:xb", "%3A", "\x00"}), rapid.String(), rapid.StringN(0, 100, 300), rapid.StringOf(rapid.RuneFrom([]rune(":x%3A-h\n"))))
	draw := func(t *rapid.T, who string) map[string]string {
		m := make(map[string]string)
		for _, name := range []string{"a", "b", "c"} {
			if rapid.Bool().Draw(t, who+" has "+name) {
				m[name] = value.Draw(t, who+" "+name)
			}
		}
		return m
	}
	rapid.Check(t, func(t *rapid.T) {
		one, two := draw(t, "one"), draw(t, "two")
		k1, err1 := tmpl.Key(from(one))
		k2, err2 := tmpl.Key(from(two))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		if (k1 == k2) != (fmt.Sprint(one) == fmt.Sprint(two) && same(one, two)) {
			t.Fatalf("%q of %q, %q of %q", k1, one, k2, two)
		}
	})
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		if w, ok := b[name]; !ok || v != w {
			return false
		}
	}
	return true
}

// FuzzKey takes a template and two requests: keys are bounded, printable and of
// the template's shape, and the same only for the same values.
func FuzzKey(f *testing.F) {
	f.Add("login:{header.x-user}:{method}", "alice", "GET", "bob", "GET")
	f.Add("a:{ip/24}:{b?}", "1.2.3.4", "x", "1.2.3.4:5", "x")
	f.Add("a:{a}:b:{b}", "x:b:y", "z", "x", "y:b:z")
	f.Add("a:{b}", strings.Repeat("%", 100), "", strings.Repeat("%", 101), "")
	f.Fuzz(func(t *testing.T, text, a1, b1, a2, b2 string) {
		tmpl, err := Parse(text)
		if err != nil {
			return
		}
		if again := mustParse(t, tmpl.String()); !slices.Equal(again.parts, tmpl.parts) {
			t.Fatalf("%q reads back as another", text)
		}
		names := tmpl.Names()
		values := func(a, b string) func(string) (string, bool) {
			return func(name string) (string, bool) {
				if i, _ := slices.BinarySearch(names, name); i%2 == 0 {
					return a, true
				}
				return b, true
			}
		}
		k1, err1 := tmpl.Key(values(a1, b1))
		k2, err2 := tmpl.Key(values(a2, b2))
		for _, k := range []string{k1, k2} {
			if len(k) > MaxKey {
				t.Fatalf("%d bytes", len(k))
			}
			for i := range len(k) {
				if k[i] <= ' ' || k[i] >= 0x7f {
					t.Fatalf("%q in %q", k[i], k)
				}
			}
			if err1 == nil && err2 == nil && strings.Count(k, ":") != colons(tmpl) {
				t.Fatalf("%q is not of the shape of %q", k, text)
			}
		}
		addresses := slices.ContainsFunc(tmpl.parts, func(p part) bool { return p.address })
		equal := a1 == a2 && (b1 == b2 || len(names) < 2) || len(names) == 0
		if err1 == nil && err2 == nil && !addresses && (k1 == k2) != equal {
			t.Fatalf("%q of %q %q, %q of %q %q", k1, a1, b1, k2, a2, b2)
		}
	})
}

// colons are those of a template's literal text.
func colons(t *Template) (n int) {
	for _, p := range t.parts {
		n += strings.Count(p.literal, ":")
	}
	return n
}

func BenchmarkKey(b *testing.B) {
	tmpl := mustParse(b, "login:{header.x-user}:{ip/24}:{method}")
	attributes := from(map[string]string{"header.x-user": "alice@example.com", "ip": "192.0.2.77", "method": "POST"})
	key := make([]byte, 0, 128)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tmpl.AppendKey(key[:0], attributes); err != nil {
			b.Fatal(err)
		}
	}
}

func ExampleParse() {
	t, err := Parse("login:{header.x-user}:{ip/24}:{method}")
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := t.Key(func(name string) (string, bool) {
		switch name {
		case "header.x-user":
			return "alice:admin", true
		case "ip":
			return "192.0.2.77", true
		case "method":
			return "POST", true
		}
		return "", false
	})
	fmt.Println(key, err)
	// Output: login:alice%3Aadmin:192.0.2.0/24:POST <nil>
}
