// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// isFrom says why the text of a fence is not in the file that it is from, whose
// path begins at dir. How far the text is indented does not matter.
func (f fence) isFrom(tree fs.FS, dir string) error {
	data, err := fs.ReadFile(tree, path.Join(dir, f.from))
	if err != nil {
		return err
	}
	flat := func(text string) string {
		var b strings.Builder
		for line := range strings.Lines(text) {
			b.WriteString(strings.TrimSpace(line) + "\n")
		}
		return b.String()
	}
	if !strings.Contains(flat(string(data)), flat(f.text)) {
		return fmt.Errorf("%s does not have this code any more: copy it from there", f.from)
	}
	return nil
}

// goFile makes a file that compiles of the Go code in a fence. Its lines are
// those of the page, below root, for the compiler to name.
func goFile(root, page string, f fence, importable map[string]string) (string, error) {
	at := fmt.Sprintf("//line %s:%d\n", filepath.Join(root, filepath.FromSlash(page)), f.line)
	if parses(f.text) {
		return at + f.text, nil // a whole file
	}
	imports, text := cutImports(f.text)
	given := f.given + "\n"
	body := at + text
	if !parses("package p\n" + given + text) {
		body = "func _()" + " {\n" + at + text + "\n}"
		tree, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+given+body, 0)
		if err != nil {
			return "", fmt.Errorf("%s:%d: neither a file, nor declarations, nor statements (a fence that is not meant to compile is a text fence): %w", page, f.line, err)
		}
		end, result := closing(tree)
		body = "func _() " + result + " {\n" + at + text + "\n" + end + "\n}"
	}
	tree, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+given+body, 0)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("package p\n" + imports + "\n")
	for _, p := range missing(tree, imports, importable) {
		fmt.Fprintf(&b, "import %q\n", p)
	}
	b.WriteString(given + body + "\n")
	return b.String(), nil
}

func parses(text string) bool {
	_, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	return err == nil
}

var importDecl = regexp.MustCompile(`(?m)^import (?:\([^)]*\)|[\w.]*\s*"[^"]*")[ \t]*$`)

// cutImports moves imports out of statements, and leaves the lines as many.
func cutImports(text string) (imports, rest string) {
	imports = strings.Join(importDecl.FindAllString(text, -1), "\n")
	rest = importDecl.ReplaceAllStringFunc(text, func(s string) string {
		return strings.Repeat("\n", strings.Count(s, "\n"))
	})
	return imports, rest
}

// closing is what makes statements a function's body: it uses each variable
// that they declare, and returns an error where they do.
func closing(tree *ast.File) (end, result string) {
	fn, ok := tree.Decls[len(tree.Decls)-1].(*ast.FuncDecl)
	if !ok {
		return "", ""
	}
	var uses []string
	for _, stmt := range fn.Body.List {
		for _, name := range declares(stmt) {
			if name != "_" {
				uses = append(uses, "_ = "+name)
			}
		}
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			if len(n.Results) == 1 {
				result = "error"
			}
		}
		return true
	})
	if result != "" {
		uses = append(uses, "return nil")
	}
	return strings.Join(uses, "\n"), result
}

// declares returns the variables that a statement declares in its own scope.
func declares(n ast.Node) []string {
	var names []string
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return nil
		}
		for _, left := range n.Lhs {
			if id, ok := left.(*ast.Ident); ok {
				names = append(names, id.Name)
			}
		}
	case *ast.DeclStmt:
		if decl, ok := n.Decl.(*ast.GenDecl); ok {
			for _, spec := range decl.Specs {
				names = append(names, declares(spec)...)
			}
		}
	case *ast.ValueSpec:
		for _, id := range n.Names {
			names = append(names, id.Name)
		}
	case *ast.Field:
		for _, id := range n.Names {
			names = append(names, id.Name)
		}
	}
	return names
}

// missing returns the import paths of packages that the code names and
// neither imports nor declares, sorted.
func missing(tree *ast.File, imports string, importable map[string]string) []string {
	var declared, paths []string
	ast.Inspect(tree, func(n ast.Node) bool {
		declared = append(declared, declares(n)...)
		return true
	})
	ast.Inspect(tree, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		id, ok := sel.X.(*ast.Ident)
		if !ok || slices.Contains(declared, id.Name) {
			return true
		}
		p, ok := importable[id.Name]
		if ok && !strings.Contains(imports, strconv.Quote(p)) {
			paths = append(paths, p)
		}
		return true
	})
	slices.Sort(paths)
	return slices.Compact(paths)
}

// common are packages outside the module that fences need not import.
var common = []string{
	"context", "errors", "fmt", "io", "log/slog", "math", "net", "net/http", "os", "strings", "sync", "testing", "time",
	"golang.org/x/time/rate", "go.uber.org/fx", "go.uber.org/yarpc", "google.golang.org/grpc",
	"google.golang.org/protobuf/types/known/anypb",
}

// importables maps package names to the paths of common packages and of the
// module's own, except commands and what users cannot import.
func importables(tree fs.FS, module string) (map[string]string, error) {
	found := make(map[string]string)
	for _, p := range common {
		found[path.Base(p)] = p
	}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "cmd", "examples", "internal", "testdata"}, d.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go") {
			p := path.Join(module, path.Dir(name))
			found[path.Base(p)] = p
		}
		return nil
	})
	return found, err
}
