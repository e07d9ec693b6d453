// SPDX-License-Identifier: Apache-2.0

package importtest

import (
	"maps"
	"slices"
	"strings"
)

// checkImports looks at each import on its own.
func (s *source) checkImports() []Problem {
	var problems []Problem
	for _, f := range s.files {
		if f.test {
			continue
		}
		if _, ok := layerOf(f.dir); !ok && !slices.Contains(wholes, top(f.dir)) {
			problems = append(problems, Problem{
				Path: f.path, What: "is in a top-level folder without a rule",
				Why: "the folder tree is the table of contents; put it below an existing folder, or give the new one a rule in internal/importtest/rules.go",
			})
		}
		for _, imp := range f.imports {
			if what, why := s.breach(f, imp.path); what != "" {
				problems = append(problems, Problem{Path: f.path, Line: imp.line, What: what, Why: why})
			}
		}
	}
	return problems
}

// breach says what is wrong with f importing the path, or nothing.
func (s *source) breach(f file, path string) (what, why string) {
	l, layered := layerOf(f.dir)
	if dir, ok := s.inside(path); ok {
		if layered && top(dir) != l.dir && !slices.Contains(l.may, top(dir)) && !slices.Contains(l.may, dir) {
			return "imports " + path, l.why + " (" + l.dir + " may import " + listed(l.may) + ")"
		}
		for _, r := range rooms {
			if within(f.dir, r.dir) && !within(dir, r.dir) && !slices.Contains(r.may, dir) {
				return "imports " + path, r.why + " (" + r.dir + " may import " + listed(r.may) + ")"
			}
		}
		return "", ""
	}
	if path == "testing" || strings.HasPrefix(path, "testing/") {
		if strings.HasSuffix(f.dir, "test") || top(f.dir) == "internal" {
			return "", ""
		}
		return "imports " + path, "services would link test code; put helpers in a package named …test"
	}
	// Generated code is as its generator makes it. That no core package
	// reaches a transport through it is for checkReach to see.
	if h, ok := heavyOf(path); ok && !f.generated && !h.allows(f.dir) {
		return "imports " + path, heavyWhy + " (its name would contain “" + h.name + "”)"
	}
	return "", ""
}

// checkReach finds core packages, those directly below the root, that link a
// heavy library through the leaf packages of their own layer. What is amiss
// in another layer is reported there.
//
// The daemon links no library that draws, through any package.
func (s *source) checkReach() []Problem {
	imports := make(map[string]map[string]string) // dir → import path → file
	for _, f := range s.files {
		if f.test {
			continue
		}
		if imports[f.dir] == nil {
			imports[f.dir] = make(map[string]string)
		}
		for _, imp := range f.imports {
			imports[f.dir][imp.path] = f.path
		}
	}
	var problems []Problem
	for _, l := range layers {
		problems = append(problems, s.reach(imports, l.dir, heavyWhy,
			func(dir string) bool { return within(dir, l.dir) },
			func(heavy) bool { return true })...)
	}
	return append(problems, s.reach(imports, daemon, daemonWhy,
		func(string) bool { return true },
		func(h heavy) bool { return h.draws })...)
}

// reach follows imports from the package in start through the packages that
// enter takes, and reports which libraries that no package may link it finds below
// others.
func (s *source) reach(imports map[string]map[string]string, start, why string, enter func(dir string) bool, no func(heavy) bool) (problems []Problem) {
	seen := map[string]bool{start: true}
	var walk func(dir string, chain []string)
	walk = func(dir string, chain []string) {
		for _, path := range slices.Sorted(maps.Keys(imports[dir])) {
			if next, ok := s.inside(path); ok {
				if enter(next) && !seen[next] {
					seen[next] = true
					walk(next, append(slices.Clone(chain), next))
				}
			} else if h, ok := heavyOf(path); ok && len(chain) > 1 && no(h) {
				problems = append(problems, Problem{
					Path: imports[start][s.module+"/"+chain[1]],
					What: "links " + h.prefix + " through " + strings.Join(append(chain[1:], path), " → "),
					Why:  why,
				})
			}
		}
	}
	walk(start, []string{start})
	return problems
}

func listed(names []string) string {
	if len(names) == 0 {
		return "no sibling"
	}
	return "only " + strings.Join(names, ", ")
}
