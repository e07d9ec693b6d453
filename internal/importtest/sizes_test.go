// SPDX-License-Identifier: Apache-2.0

package importtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"
)

// These bound what a reader has to keep in mind: see docs/design/0006-one-way-to-decide.md.
const (
	mostLines   = 1600 // of a package without its tests: about 1,500
	mostPublic  = 1800 // of limiter
	mostFields  = 15
	mostMethods = 20 // as declared; what an embedded type brings counts at that type
	mostNames   = 30 // exported types and functions of limiter
)

// wide are types that have more fields, and why.
var wide = map[string]string{
	"limiter/explain.Key": "is a page as JSON, with a field for each line that operators read",
}

// size is what a package or a type has.
type size struct{ lines, names, fields, methods int }

func TestTheHouseOfLimiterIsSmall(t *testing.T) {
	packages, types := sizes(t, os.DirFS("../.."))
	for dir, s := range packages {
		most := mostLines
		if dir == "limiter" {
			most = mostPublic
			if s.names > mostNames {
				t.Errorf("limiter exports %d types and functions, at most %d", s.names, mostNames)
			}
		}
		if s.lines > most {
			t.Errorf("%s has %d lines, at most %d", dir, s.lines, most)
		}
	}
	for name, s := range types {
		if s.methods > mostMethods {
			t.Errorf("%s has %d methods, at most %d", name, s.methods, mostMethods)
		}
		if s.fields > mostFields && wide[name] == "" {
			t.Errorf("%s has %d fields, at most %d", name, s.fields, mostFields)
		}
	}
	if len(packages) < 30 || types["limiter.Limiter"] == nil || types["shadow.Pair"] == nil || types["headgate.Node"] == nil {
		t.Errorf("%d packages and %d types are read", len(packages), len(types))
	}
}

// sizes measures limiter with all below it, shadow, and the root package.
func sizes(t *testing.T, tree fs.FS) (packages, types map[string]*size) {
	t.Helper()
	packages, types = make(map[string]*size), make(map[string]*size)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		dir := path.Dir(name)
		in := dir == "." || dir == "shadow" || dir == "limiter" || strings.HasPrefix(dir, "limiter/")
		if err != nil || d.IsDir() || !in || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if dir == "." {
			dir = file.Name.Name
		}
		of := entry(packages, dir)
		of.lines += bytes.Count(data, []byte("\n"))
		for _, decl := range file.Decls {
			of.names += measure(decl, func(name string) *size { return entry(types, dir+"."+name) })
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return packages, types
}

func entry(all map[string]*size, name string) *size {
	if all[name] == nil {
		all[name] = new(size)
	}
	return all[name]
}

// measure adds what decl has to its types, and returns how many types and functions it exports.
func measure(decl ast.Decl, of func(name string) *size) (exported int) {
	count := func(name *ast.Ident) {
		if name.IsExported() {
			exported++
		}
	}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil {
			count(decl.Name)
			break
		}
		of(receiver(decl.Recv.List[0].Type)).methods++
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			spec, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			count(spec.Name)
			if s, ok := spec.Type.(*ast.StructType); ok {
				of(spec.Name.Name).fields += s.Fields.NumFields()
			}
		}
	}
	return exported
}

// receiver is the name of a method's type.
func receiver(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr: // the type has a parameter
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
