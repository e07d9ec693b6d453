// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// request has its attributes by name, or by name:arg.
type request map[string]string

func (r request) Attribute(name, arg string) string {
	if arg != "" {
		name += ":" + arg
	}
	return r[name]
}

func TestKeys(t *testing.T) {
	r := request{
		"method": "GET", "path": "/a b:c", "route": "/users/{id}", "header:X-Tenant": "acme", "header:Odd": "*?[]\\{}%\xff\n~", "user": "é",
		"ip": "192.0.2.77", "header:Long": strings.Repeat("x", 97), "header:Fits": strings.Repeat("y", 96), "header:Wide": strings.Repeat(":", 33),
	}
	for template, want := range map[string]string{
		"plain":                              "plain",
		"api:{method}:{path}":                "api:GET:/a%20b%3Ac",
		"{header:X-Tenant}":                  "acme",
		"r:{route}":                          "r:/users/%7Bid%7D",
		"{header:None}":                      "",
		"a:{header:None}:b":                  "a::b",
		"{{{header:X-Tenant}}}":              "{acme}",
		"{header:Odd}":                       "%2A%3F%5B%5D%5C%7B%7D%25%FF%0A%7E",
		"u:{user}":                           "u:%C3%A9",
		"{ip}":                               "192.0.2.77",
		"{ip/24}":                            "192.0.2.0",
		"{ip/8,48}":                          "192.0.0.0",
		"{header:Fits}":                      strings.Repeat("y", 96),
		"{header:Long}":                      strings.Repeat("x", 63) + "~0f64e9a5bd8c7cbc0ed0cd6a1b3c1b5a",
		"{header:Wide}":                      strings.Repeat("%3A", 21) + "~",
		"é:{method}":                         "é:GET",
		"{method}:{method}:{method}:{ip/32}": "GET:GET:GET:192.0.2.77",
	} {
		p, err := Parse(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		got := p.Key(r)
		if prefix, _, cut := strings.Cut(want, "~"); cut {
			if !strings.HasPrefix(got, prefix+"~") || len(got) != MaxValue {
				t.Errorf("%s: %s has %d bytes", template, got, len(got))
			}
		} else if got != want {
			t.Errorf("%s: %q, want %q", template, got, want)
		}
	}
}

func TestNetworks(t *testing.T) {
	for _, tc := range []struct{ template, ip, want string }{
		{"{ip/24}", "2001:db8:1:2:3::4", "2001%3Adb8%3A1%3A2%3A%3A"},
		{"{ip/24,48}", "2001:db8:1:2:3::4", "2001%3Adb8%3A1%3A%3A"},
		{"{ip/24}", "::ffff:192.0.2.9", "192.0.2.0"},
		{"{ip}", "fe80::1%eth0", "fe80%3A%3A1"},
		{"{ip/1,1}", "255.255.255.255", "128.0.0.0"},
		{"{ip/24}", "nonsense:1", "nonsense%3A1"},
		{"{ip/24}", "", ""},
	} {
		p, err := Parse(tc.template)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Key(request{"ip": tc.ip}); got != tc.want {
			t.Errorf("%s of %s: %s, want %s", tc.template, tc.ip, got, tc.want)
		}
	}
}

func TestBadTemplates(t *testing.T) {
	for template, want := range map[string]string{
		"": "has 0 bytes", strings.Repeat("x", 513): "has 513 bytes", "a}": "without a {", "{a": "never closed", "{}": "there is no attribute {}",
		"{hedder:X-User}": "there is no attribute {hedder:X-User}: use {method}, {path}, {route}, {header:NAME}",
		"{users}":         "there is no attribute {users}", "{header}": "names no header", "{header:}": "names no header", "{header:a b}": "names no header",
		"{user:x}": "takes nothing", "{ip:4}": "takes nothing", "{ip/0}": "is no network", "{ip/33}": "is no network", "{ip/24,129}": "is no network",
		"{ip/}": "is no network", "{ip/x}": "is no network", "{user}{ip}": "nothing is between {ip}", "{user}-{ip}": "could be a part of them",
		"{user}abc{ip}": "could be a part of them", "{user}%{ip}": "could be a part of them", "{user}~{ip}": "could be a part of them", strings.Repeat("{user}:", 9): "9 attributes", strings.Repeat(":", 257): "257 bytes beside",
	} {
		if p, err := Parse(template); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30s: %v, %v, want %s", template, p, err, want)
		}
	}
}

// Requests have the same key only if their attributes are the same.
func TestNoRequestPassesForAnother(t *testing.T) {
	value := rapid.OneOf(
		rapid.StringOfN(rapid.SampledFrom([]rune("ab:%{}~-*é\x00")), 0, 5, -1),
		rapid.Custom(func(t *rapid.T) string {
			return strings.Repeat(":", rapid.IntRange(0, 40).Draw(t, "n")) + rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "end")
		}),
	)
	literal := rapid.SampledFrom([]string{":", "::", ": ", "a:b", "%:", "~*", "*", "é"})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "attributes")
		var template strings.Builder
		a, b := request{}, request{}
		for i := range n {
			if i > 0 {
				template.WriteString(literal.Draw(t, "between"))
			}
			fmt.Fprintf(&template, "{header:%d}", i)
			name := fmt.Sprintf("header:%d", i)
			a[name], b[name] = value.Draw(t, "a"), value.Draw(t, "b")
		}
		p, err := Parse(template.String())
		if err != nil {
			t.Fatal(err)
		}
		same := true
		for name := range a {
			same = same && a[name] == b[name]
		}
		if got := p.Key(a) == p.Key(b); got != same {
			t.Fatalf("%s of %q and of %q: %q and %q", &template, a, b, p.Key(a), p.Key(b))
		}
	})
}

// Whatever the template and the values, a key is no longer than it may be.
func FuzzKey(f *testing.F) {
	f.Add("api:{header:X-Tenant}:{ip/24}", "acme", "192.0.2.1")
	f.Add("{{x}}{user}:{user}:{method}%{ip/1,1}", "\xff:", "::1")
	f.Fuzz(func(t *testing.T, template, value, ip string) {
		p, err := Parse(template)
		if err != nil {
			return
		}
		key := p.Key(request{"method": value, "path": value, "user": value, "ip": ip, "header:X-Tenant": value})
		if len(key) > 1024 {
			t.Fatalf("%d bytes", len(key))
		}
	})
}
