// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestParse(t *testing.T) {
	p := parse("docs/a.md", strings.ReplaceAll(`# The `+"`Title`"+`, twice
See [this](b.md) and `+"`[no](link.md)`"+`.
![picture](a.svg "title")
[ref]: c.md#d
## Again
## Again

<!-- given: var x int -->
'''go
x++
'''

- in a list

  '''console
  $ make run FOR=20s   # ends by itself
  output
  $ make test \
      PKGS=./limiter
  '''

'''sh
# a comment
make lint && make test
'''
`, "'''", "```"))
	if want := []string{"the-title-twice", "again", "again-1"}; !slices.Equal(p.anchors, want) {
		t.Errorf("anchors %q, want %q", p.anchors, want)
	}
	if want := []link{{2, "b.md"}, {3, "a.svg"}, {4, "c.md#d"}}; !slices.Equal(p.links, want) {
		t.Errorf("links %v, want %v", p.links, want)
	}
	if len(p.fences) != 3 {
		t.Fatalf("%d fences, want 3: %+v", len(p.fences), p.fences)
	}
	if f := p.fences[0]; f != (fence{line: 10, lang: "go", text: "x++\n", given: "var x int"}) {
		t.Errorf("fence %+v", f)
	}
	if got, want := p.fences[1].commands(), []string{"make run FOR=20s", "make test PKGS=./limiter"}; !slices.Equal(got, want) {
		t.Errorf("commands %q, want %q", got, want)
	}
	if got, want := p.fences[2].commands(), []string{"make lint", "make test"}; !slices.Equal(got, want) {
		t.Errorf("commands %q, want %q", got, want)
	}
}

func TestCommand(t *testing.T) {
	c := checker{
		tree: fstest.MapFS{
			"Makefile":           {Data: []byte("run: ## watch\n\tgo run . $(if $(FOR),--for $(FOR))\nhidden:\n")},
			"examples/a/main.go": {Data: []byte("package main\n")},
		},
		help: func(program string, args ...string) (string, error) {
			switch program + " " + strings.Join(args, " ") {
			case "headgate-lab demo":
				return "Usage:\n  headgate-lab demo\n\n      --for duration   how long\n  -j, --json           print\n", nil
			case "headgate ", "headgate-lab ":
				return "Usage:\n", nil
			}
			return "", errors.New("no such subcommand")
		},
	}
	for _, tc := range []struct {
		cmd  string
		want string // part of the error, or none
	}{
		{"make run", ""},
		{"make run FOR=20s", ""},
		{"CI=true make run", ""},
		{"make run TO=20s", "reads no TO"},
		{"make walk", "lists no walk"},
		{"make hidden", "lists no hidden"},
		{"headgate-lab demo --for 20s --json | tail -n 1 --lines", ""},
		{"go run ./cmd/headgate-lab demo --for=20s -j", ""},
		{"headgate-lab demo --fo", "knows no --fo"},
		{"headgate-lab demo frontend", ""},
		{"headgate dance", "no such subcommand"},
		{"headgate demo", "no such subcommand"},
		{"go run ./examples/a", ""},
		{"go run ./examples/b", "no such package"},
		{"git clone https://github.com/headgate/headgate", ""},
		{"git clone https://github.com/headgate/other", "nothing runs it"},
		{"curl localhost:8080", "nothing runs it"},
	} {
		err := c.command(tc.cmd)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want %q", tc.cmd, err, tc.want)
		}
	}
}

func TestFollow(t *testing.T) {
	tree := fstest.MapFS{"docs/a.md": {}, "docs/b.md": {}, "LICENSE": {}}
	all := []page{{path: "docs/a.md", anchors: []string{"one"}}, {path: "docs/b.md", anchors: []string{"two"}}}
	for target, want := range map[string]string{
		"b.md":                 "",
		"b.md#two":             "",
		"#one":                 "",
		"../LICENSE":           "",
		"https://example.com/": "",
		"c.md":                 "no such file: docs/c.md",
		"b.md#three":           "no heading #three",
		"#two":                 "no heading #two",
		"/LICENSE":             "slash",
	} {
		err := follow(tree, all, all[0], target)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", target, err, want)
		}
	}
}

// TestGoFile vets fences of each form, good and bad, as the documents' are.
func TestGoFile(t *testing.T) {
	root, _ := repository(t)
	var good []string // vetted at once
	importable := map[string]string{"fmt": "fmt", "errors": "errors", "strings": "strings", "os": "os", "rpc": module + "/rpc"}
	for _, tc := range []struct {
		name  string
		text  string
		given string
		want  string // part of what go vet prints, or none
	}{
		{"a whole file", "package main\n\nfunc main() {}\n", "", ""},
		{"declarations", "type T struct{}\n\nfunc (T) Do() error { return errors.New(\"no\") }\n", "", ""},
		{"statements", "n, err := fmt.Println(name)\n", `var name = "x"`, ""},
		{"statements with a result", "if err := do(); err != nil {\n\treturn err\n}\n", "func do() error { return nil }", ""},
		{"statements after an import", "import \"fmt\"\n\nfmt.Println(strings.ToUpper(\"a\"))\n", "", ""},
		{"a variable named as a package", "os := 1\nfmt.Println(os)\n", "", ""},
		{"a package of this module", "fmt.Println(rpc.MaxKeys)\n", "", ""},
		{"an internal package", "import \"github.com/headgate/headgate/internal/importtest\"\n\nfmt.Println(importtest.Check)\n", "", "use of internal package"},
		{"an unknown method", "fmt.Println(1)\n\nfmt.Prinln(2)\n", "", "page.md:12"},
		{"a wrong format", "fmt.Printf(\"%d\", \"x\")\n", "", "page.md:10"},
		{"a test", "package p\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n", "", ""},
		{"a test that fails", "package p\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Error(1) }\n", "", "FAIL: TestA"},
		{"no Go at all", "make it so\n", "", "page.md:10: neither"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, err := goFile(root, "page.md", fence{line: 10, lang: "go", text: tc.text, given: tc.given}, importable)
			if err == nil && tc.want == "" {
				good = append(good, text)
				return
			}
			var said string
			if err != nil {
				said = err.Error()
			} else {
				var out []byte
				out, err = vet(t, root, map[string][]string{"page.md": {text}})
				said = string(out)
			}
			if err == nil || tc.want == "" || !strings.Contains(said, tc.want) {
				t.Errorf("got %v, want %q:\n%s\n%s", err, tc.want, said, text)
			}
		})
	}
	if out, err := vet(t, root, map[string][]string{"page.md": good}); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, strings.Join(good, "\n---\n"))
	}
}

func TestIsFrom(t *testing.T) {
	tree := fstest.MapFS{"examples/a/main.go": {Data: []byte("package main\n\nfunc f() {\n\tg()\n\th()\n}\n")}}
	p := parse("docs/a.md", "<!-- from: ../examples/a/main.go -->\n```go\ng()\nh()\n```\n")
	if len(p.fences) != 1 || p.fences[0].from != "../examples/a/main.go" {
		t.Fatalf("fences %+v", p.fences)
	}
	for text, want := range map[string]string{
		"g()\nh()\n":                      "",
		"  g()\n":                         "",
		"h()\ng()\n":                      "does not have this code any more",
		"func f() {\n\tg()\n\n\th()\n}\n": "does not have this code any more",
	} {
		f := fence{text: text, from: p.fences[0].from}
		if err := f.isFrom(tree, "docs"); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
	gone := fence{from: "../examples/b/main.go"}
	if err := gone.isFrom(tree, "docs"); err == nil {
		t.Error("a file that does not exist is accepted")
	}
}
