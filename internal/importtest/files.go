// SPDX-License-Identifier: Apache-2.0

package importtest

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

const licenceLine = "// SPDX-License-Identifier: Apache-2.0\n"

// checkLicence wants the licence as the first line. Generators write their
// own first line, so generated files may have it anywhere in the first ten.
func checkLicence(name string, data []byte, generated bool) (Problem, bool) {
	if bytes.HasPrefix(data, []byte(licenceLine)) || generated {
		return Problem{}, false
	}
	return Problem{
		Path: name, Line: 1, What: "does not begin with the licence",
		Why: "make its first line: " + strings.TrimSpace(licenceLine),
	}, true
}

// checkComments wants one package comment for each package, in the form that
// go doc shows.
func (s *source) checkComments() []Problem {
	type pkg struct {
		first     string
		commented []string
	}
	pkgs := make(map[string]*pkg)
	var problems []Problem
	for _, f := range s.files {
		if f.test {
			continue
		}
		p := pkgs[f.dir]
		if p == nil {
			p = &pkg{first: f.path}
			pkgs[f.dir] = p
		}
		if f.ast.Doc == nil || f.generated {
			continue
		}
		p.commented = append(p.commented, f.path)
		want := "Package " + f.ast.Name.Name + " "
		if f.ast.Name.Name == "main" {
			want = "Command " + path.Base("/"+f.dir) + " "
		}
		if text := f.ast.Doc.Text(); !strings.HasPrefix(text, want) {
			first, _, _ := strings.Cut(text, "\n")
			problems = append(problems, Problem{
				Path: f.path, What: "package comment begins “" + first + "”",
				Why: "begin it with “" + want + "”",
			})
		}
	}
	for _, p := range pkgs {
		switch {
		case len(p.commented) == 0 && !s.allGenerated(p.first):
			problems = append(problems, Problem{Path: p.first, What: "no file of this package has a package comment", Why: "say in doc.go what the package is for"})
		case len(p.commented) > 1:
			problems = append(problems, Problem{Path: p.commented[1], What: "is a second package comment, after " + p.commented[0], Why: "go doc runs them together; keep one"})
		}
	}
	return problems
}

// allGenerated reports whether the package of the file is generated whole.
func (s *source) allGenerated(name string) bool {
	return !slices.ContainsFunc(s.files, func(f file) bool {
		return path.Dir(f.path) == path.Dir(name) && !f.test && !f.generated
	})
}

// machinePath is an absolute path of one machine: a home folder.
var machinePath = regexp.MustCompile(`(?:^|[^\w./~-])(/(?:home|Users)/[A-Za-z]|/` + `root/|[A-Z]:\\Users\\)`)

// registryHosts are spelled in parts, so that this file does not hold them.
var registryHosts = regexp.MustCompile(`(?i)\b(?:proxy|sum|index)\.golang` + `\.org|\bgoproxy\.[a-z]+\b|\bregistry\.(?:npmjs|yarnpkg)` + `\.|\bpypi` + `\.org|\bcrates` + `\.io|\b(?:deb|security)\.debian` + `\.org|\b(?:archive|security)\.ubuntu` + `\.com|\b[\w-]+\.(?:artifactory|jfrog)\b|\bartifactory\.`)

// hints are texts of which each match of machinePath and of registryHosts has one, in lower
// case. Most files have none, and looking for one is much faster than matching.
var hints = []string{
	"/home/", "/users/", "/" + "root/", `:\users\`,
	"proxy.golang", "sum.golang", "index.golang", "goproxy.", "registry.", "pypi.", "crates.", "debian.", "ubuntu.", "artifactory", "jfrog",
}

// checkText looks for what holds on one machine only.
func checkText(name string, data []byte) []Problem {
	lower := bytes.ToLower(data)
	if !slices.ContainsFunc(hints, func(hint string) bool { return bytes.Contains(lower, []byte(hint)) }) {
		return nil
	}
	var problems []Problem
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if m := machinePath.FindSubmatch(line); m != nil {
			problems = append(problems, Problem{
				Path: name, Line: n, What: "holds a path of one machine, " + string(m[1]) + "…",
				Why: "it is nowhere else; use a path from the root of the repository, or t.TempDir",
			})
		}
		if m := registryHosts.Find(line); m != nil {
			problems = append(problems, Problem{
				Path: name, Line: n, What: "names the registry " + string(m),
				Why: "which registry to use is the business of who builds: leave it to GOPROXY and its like",
			})
		}
	}
	return problems
}

// isText says by its name whether people write the file. Fuzz corpora and
// sums are data.
func isText(name string) bool {
	if strings.Contains("/"+name, "/testdata/fuzz/") {
		return false
	}
	switch path.Ext(name) {
	case ".go", ".md", ".mod", ".yml", ".yaml", ".sh", ".proto", ".txt", ".json", ".toml", ".html", ".css", ".js", ".sql", ".tmpl":
		return true
	case "":
		return true
	}
	return slices.Contains([]string{".gitignore", ".editorconfig"}, path.Base(name))
}
