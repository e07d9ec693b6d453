// SPDX-License-Identifier: Apache-2.0

package importtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Problem is one breach of the tree's rules.
type Problem struct {
	// Path is the file, from the root of the tree, and Line a line in it
	// or 0.
	Path string
	Line int
	// What is wrong, and why it matters or what to do.
	What, Why string
}

// String is what a test prints: path:line: what: why.
func (p Problem) String() string {
	where := p.Path
	if p.Line > 0 {
		where += ":" + strconv.Itoa(p.Line)
	}
	return fmt.Sprintf("%s: %s: %s", where, p.What, p.Why)
}

// Check reads the tree, whose root has the go.mod, and returns what breaks
// its rules, by path. The error is about reading only.
func Check(tree fs.FS) ([]Problem, error) {
	t, err := readTree(tree)
	if err != nil {
		return nil, err
	}
	problems := slices.Concat(t.problems, t.checkImports(), t.checkReach(), t.checkComments())
	slices.SortFunc(problems, func(a, b Problem) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		if c := a.Line - b.Line; c != 0 {
			return c
		}
		return strings.Compare(a.What, b.What)
	})
	return problems, nil
}

// source is a tree as read.
type source struct {
	module string // its path, from go.mod
	files  []file
	// problems were found while reading.
	problems []Problem
}

// file is a parsed Go file.
type file struct {
	path, dir string // dir is "" for the root
	ast       *ast.File
	imports   []imported
	test      bool // _test.go
	generated bool
}

type imported struct {
	path string
	line int
}

// Folders that hold nothing of the repository's own source.
var skipped = []string{".git", ".bin", "bin", "vendor", "node_modules"}

func readTree(tree fs.FS) (*source, error) {
	gomod, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("root of the tree: %w", err)
	}
	s := new(source)
	for line := range strings.Lines(string(gomod)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			s.module = strings.TrimSpace(name)
			break
		}
	}
	if s.module == "" {
		return nil, fmt.Errorf("go.mod has no module line")
	}
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if slices.Contains(skipped, d.Name()) {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		return s.read(tree, name)
	})
	return s, err
}

func (s *source) read(tree fs.FS, name string) error {
	if !isText(name) {
		return nil
	}
	data, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	s.problems = append(s.problems, checkText(name, data)...)
	if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
		return nil
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		s.problems = append(s.problems, Problem{Path: name, What: "does not parse", Why: err.Error()})
		return nil
	}
	f := file{
		path:      name,
		dir:       strings.TrimPrefix(path.Dir("/"+name), "/"),
		ast:       parsed,
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(parsed),
	}
	for _, spec := range parsed.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		f.imports = append(f.imports, imported{path: p, line: fset.Position(spec.Pos()).Line})
	}
	if p, bad := checkLicence(name, data, f.generated); bad {
		s.problems = append(s.problems, p)
	}
	s.files = append(s.files, f)
	return nil
}

// inside returns the folder of an import path of this module.
func (s *source) inside(imported string) (dir string, ok bool) {
	if imported == s.module {
		return "", true
	}
	return strings.CutPrefix(imported, s.module+"/")
}
