// SPDX-License-Identifier: Apache-2.0

package callers

import (
	"errors"
	"strings"
	"testing"

	"github.com/headgate/headgate/rpc/edge"
)

var text = `
callers:
  - name: orders
    certificates: [orders.internal]
    tokens: ["` + Hash("first") + `", "` + Hash("second") + `"]
    uids: [1000]
    use: ["login:*", "llm:*"]
    hold: ["llm:*"]
  - {name: billing, uids: [0], charge: ["*"]}
anyone: {use: ["public:?"]}
`

func TestAPolicySaysWhoMayDoWhat(t *testing.T) {
	p, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	user, root, other := uint32(1000), uint32(0), uint32(7)
	for _, tt := range []struct {
		proof Proof
		name  string
		may   string // kinds and keys
	}{
		{Proof{Certificate: "orders.internal"}, "orders", "use login:a, use llm:a, hold llm:a, not hold login:a, not charge llm:a, not use public:a"},
		{Proof{Token: "first"}, "orders", ""},
		{Proof{Token: "second", UID: &root}, "orders", ""},
		{Proof{UID: &user}, "orders", ""},
		{Proof{UID: &root}, "billing", "charge llm:a, not use llm:a"},
		{Proof{UID: &other}, "", "use public:a, not use public:ab, not charge public:a"},
		{Proof{Certificate: "orders"}, "", ""},
		{Proof{}, "", ""},
	} {
		c, err := p.Who(tt.proof)
		if err != nil || c.Name() != tt.name {
			t.Errorf("%+v: %q, %v", tt.proof, c.Name(), err)
		}
		for what := range strings.SplitSeq(tt.may, ", ") {
			if what == "" {
				continue
			}
			what, not := strings.CutPrefix(what, "not ")
			verb, key, _ := strings.Cut(what, " ")
			kind := map[string]edge.Kind{"use": edge.Take, "hold": edge.Hold, "charge": edge.Charge}[verb]
			if err := c.May(kind, key); errors.Is(err, ErrForbidden) != not {
				t.Errorf("%q, %s %s: %v", tt.name, verb, key, err)
			}
		}
		if err := c.May(edge.Settle, "x"); err != nil {
			t.Errorf("settle: %v", err)
		}
	}
	for _, token := range []string{"third", "firs", "first ", Hash("first")} {
		if _, err := p.Who(Proof{Token: token, Certificate: "orders.internal"}); !errors.Is(err, ErrToken) {
			t.Errorf("%q: %v", token, err)
		}
	}
}

// TestAWrongTokenCostsNoMoreThanARightOne compares tokens of one length by what does not
// depend on the machine's speed.
func TestAWrongTokenCostsNoMoreThanARightOne(t *testing.T) {
	long := strings.Repeat("x", 8<<10)
	p, err := Parse([]byte(`callers: [{name: a, tokens: ["` + Hash("short") + `", "` + Hash(long) + `"], use: ["*"]}]`))
	if err != nil {
		t.Fatal(err)
	}
	allocations := func(token string, want error) float64 {
		return testing.AllocsPerRun(100, func() {
			if _, err := p.Who(Proof{Token: token}); !errors.Is(err, want) {
				t.Errorf("%.5q: %v", token, err)
			}
		})
	}
	for _, right := range []string{"short", long} {
		most := allocations(right, nil)
		for _, wrong := range []string{right[:len(right)-1] + "y", "y" + right[1:]} {
			if n := allocations(wrong, ErrToken); n > most {
				t.Errorf("a wrong token of %d bytes takes %v allocations, a right one %v", len(wrong), n, most)
			}
		}
	}
}

func TestWithoutAnyoneNobodyElseMayDoAnything(t *testing.T) {
	p, err := Parse([]byte("callers: [{name: a, uids: [1], use: ['*']}]"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Who(Proof{}); !errors.Is(err, ErrProof) {
		t.Error(err)
	}
	var none *Policy
	if c, err := none.Who(Proof{Token: "x"}); err != nil || c.May(edge.Charge, "k") != nil {
		t.Errorf("without a policy: %v", err)
	}
}

func TestMistakesInAPolicy(t *testing.T) {
	for text, want := range map[string]string{
		"callers: [{use: ['*']}]":                                          `caller 1: name "": write 1 to 128 bytes`,
		"callers: [{name: a, use: ['*']}]":                                 "no one can prove to be this caller",
		"callers: [{name: anyone, uids: [1]}]":                             "the name anyone is for those who show nothing",
		"callers: [{name: '" + strings.Repeat("n", 129) + "', uids: [1]}]": "write 1 to 128 bytes of text in one line",
		`callers: [{name: "a\tb", uids: [1]}]`:                             "write 1 to 128 bytes of text in one line",
		"callers: [{name: a, uids: [1]}, {name: a, uids: [2]}]":            "two callers",
		"callers: [{name: a, uids: [1]}, {name: b, uids: [1]}]":            `also that of "a"`,
		"callers: [{name: a, tokens: [secret]}]":                           "headgate token makes both",
		"callers: [{name: a, uids: [1], use: ['a[']}]":                     `"a["`,
		"anyone: {use: ['\\']}":                                            "lone",
		"caller: []":                                                       "caller",
		"callers: [{name: a, uids: [-1]}]":                                 "",
		"callers:\n  - {name: a, use: llm}":                                "line 2, column 20: text was used where list is expected: compare it",
		"callers: [{name: a, uids: [root]}]":                               "uids: root is no user: write the number that id -u prints",
		"callers: [{name: a, uids: [~]}]":                                  "is no user",
		"callers: [{name: a, uids: [1.5]}]":                                "is no user",
		"callers: [{name: a, uids: [true]}]":                               "is no user",
		"callers: [{name: a, uids: [4294967296]}]":                         "is no user",
		"callers: [{name: a, certificates: [~]}]":                          "has no name",
		"":           "the file is empty",
		"# nobody\n": "the file is empty",
		"callers: []\n---\ncallers: [{name: a, uids: [1]}]\n": "second document",
		"callers: []\n---\n}":                                "second document",
		"callers: [{name: a, token: [x]}]":                   `unknown field "token": did you mean tokens?`,
		"users: [{name: a}]":                                 `unknown field "users": did you mean callers?`,
		"callers: [{name: a, allow: ['*']}]":                 `unknown field "allow": did you mean use?`,
		"callers: [{name: a, colour: red}]":                  `unknown field "colour": compare it with the examples`,
		"callers:\n  - {name: a, uids: [1], use: [login:*]}": "look for wrong indentation, or for a value with any of : * [ ] { } # that needs quotes",
		"anyone: {use: ['*'], use: ['*']}":                   "use",
	} {
		if p, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
}

// unreadable is a text at which the YAML library panics.
const unreadable = "callers:\n  - A: [0]\n    uids: 0]\n    use: !00\n000000000000000000000000"

// Editors of other systems write ends of lines of two characters.
func TestAPolicyIsReadAsOtherSystemsWriteIt(t *testing.T) {
	for _, text := range []string{
		"---\r\n# ours\r\ncallers:\r\n  - name: a # us\r\n    uids: [7]\r\n",
		"callers: [{name: a, uids: ['7']}]\n---\n",
		"callers: [{name: a, uids: [7]}]\n...\n",
	} {
		seven := uint32(7)
		p, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if c, err := p.Who(Proof{UID: &seven}); err != nil || c.Name() != "a" {
			t.Errorf("%q: %q, %v", text, c.Name(), err)
		}
	}
}

func TestATextThatBreaksTheParserIsRefused(t *testing.T) {
	if _, err := Parse([]byte(unreadable)); err == nil || !strings.Contains(err.Error(), "not YAML that can be read") {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(text))
	f.Add([]byte(unreadable))
	f.Fuzz(func(_ *testing.T, text []byte) {
		if p, err := Parse(text); err == nil {
			if c, err := p.Who(Proof{Certificate: "orders.internal"}); err == nil {
				_ = c.May(edge.Take, "k")
			}
		}
	})
}

// Who sends a field that has no token is refused, and is not anyone.
func TestAFieldWithoutATokenIsAWrongToken(t *testing.T) {
	p, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		fields []string
		want   error
	}{
		{nil, nil},
		{[]string{"Bearer first"}, nil},
		{[]string{"bearer   second "}, nil},
		{[]string{"Bearer"}, ErrToken},
		{[]string{"Bearer "}, ErrToken},
		{[]string{"Bearer \t"}, ErrToken},
		{[]string{""}, ErrToken},
		{[]string{"first"}, ErrToken},
		{[]string{"Basic first"}, ErrToken},
		{[]string{"Bearer first", "Bearer first"}, ErrToken},
		{[]string{"Bearer \x00"}, ErrToken},
	} {
		if _, err := p.Who(Proof{Token: Bearer(tt.fields)}); !errors.Is(err, tt.want) {
			t.Errorf("%q: %v, want %v", tt.fields, err, tt.want)
		}
	}
}

// A program that shows a certificate which the policy does not have is not told that it shows none.
func TestAnUnknownCertificateIsNotCalledMissing(t *testing.T) {
	p, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Who(Proof{Certificate: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.May(edge.Take, "login:a"); err == nil || !strings.Contains(err.Error(), "a program that the policy does not name may not use this key") {
		t.Error(err)
	}
}
