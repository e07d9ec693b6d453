// SPDX-License-Identifier: Apache-2.0

package importtest

import (
	"bytes"
	"go/ast"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// These bound what a reader has to keep in mind: see docs/design/0006-one-way-to-decide.md.
const (
	mostLines   = 1600 // of a package without its tests: about 1,500
	mostFiles   = 15   // of a package without its tests
	mostFields  = 15
	mostMethods = 20 // as declared; what an embedded type brings counts at that type
	mostNames   = 30 // exported types and functions of limiter
)

// wide are packages and types that are larger, by what they have more of, and why. The number is
// what they may have.
var wide = map[string]struct {
	most int
	why  string
}{
	"limiter: lines":                  {1800, "the public API of hosts, with its comments: see docs/design/0006-one-way-to-decide.md"},
	"limiter: files":                  {16, "the same"},
	"dynamicconfig/rule.Rule: fields": {29, "has a field for each field of a rule in a config file"},
	"aggregator.update: fields":       {16, "is one report under way, in one piece so that it is used again"},

	"internal/daemon.Config: fields":                 {30, "has a field for each flag of headgate serve"},
	"internal/daemon.Daemon: fields":                 {18, "has a field for each part that starts and stops; the parts are packages of their own"},
	"internal/daemon.Daemon: methods":                {32, "the same: a step of the start or the end each"},
	"internal/nodeload.Result: fields":               {31, "is a table, with a field for each figure"},
	"internal/sim/measure.Metrics: fields":           {17, "the same"},
	"internal/sim/measure.Row: fields":               {24, "the same"},
	"internal/sim/scenario.Action: fields":           {20, "has a field for each field of an event in a scenario"},
	"internal/sim/traffic.Stream: fields":            {16, "has what its caller sets and where it is, so that an event takes no allocation"},
	"internal/sim/fleet.Fleet: methods":              {63, "is one run: events of any kind at any host reach the whole of it, a kind a file"},
	"internal/sim/world.cluster: methods":            {31, "is one run: traffic and actions reach the whole of it"},
	"internal/toptui.model: fields":                  {26, "is the one state of a view of Bubble Tea"},
	"internal/toptui.model: methods":                 {37, "the same: a method for each part of the screen and for each key that is pressed"},
	"internal/admin/ui.UI: methods":                  {31, "has a method for each page"},
	"dynamicconfig/edit.document: methods":           {33, "is a YAML file in which fields change and all else stays; edits see all of it"},
	"dynamicconfig/internal/decode.decoder: methods": {21, "has a method for each kind of field of a config file"},

	"aggregator/internal/account/claims.Leases: methods": {22, "implements account.Leaser, which asks for most of them"},
	"aggregator/internal/account/pool.asked: methods":    {27, "implements account.Pooled, which asks for most of them"},
	"aggregator/internal/account/pool.holdings: methods": {30, "is a key's pool with what each host holds: each method keeps the two in step"},
	"rpc/usage/ask.Taker: methods":                       {22, "is what callers ask with, what withdraws their takes, and what tells of both"},
}

// size is what a package or a type has.
type size struct{ lines, files, names, fields, methods int }

func TestTheHouseIsSmall(t *testing.T) {
	packages, types := sizes(t, os.DirFS("../.."))
	hold := func(name, of string, has, most int) {
		exception, ok := wide[name+": "+of]
		if ok && has <= most {
			t.Errorf("%s has %d %s: it needs no exception", name, has, of)
		}
		if most = max(most, exception.most); has > most {
			t.Errorf("%s has %d %s, at most %d", name, has, of, most)
		}
	}
	for dir, s := range packages {
		hold(dir, "lines", s.lines, mostLines)
		hold(dir, "files", s.files, mostFiles)
	}
	for name, s := range types {
		hold(name, "fields", s.fields, mostFields)
		hold(name, "methods", s.methods, mostMethods)
	}
	if n := packages["limiter"].names; n > mostNames {
		t.Errorf("limiter exports %d types and functions, at most %d", n, mostNames)
	}
	for exception := range wide {
		if name, _, _ := strings.Cut(exception, ":"); packages[name] == nil && types[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	if len(packages) < 150 || types["limiter.Limiter"] == nil || types["shadow.Pair"] == nil || types["headgate.Node"] == nil {
		t.Errorf("%d packages and %d types are read", len(packages), len(types))
	}
}

// sizes measures the whole tree but what is generated.
func sizes(t *testing.T, tree fs.FS) (packages, types map[string]*size) {
	t.Helper()
	s, err := readTree(tree)
	if err != nil {
		t.Fatal(err)
	}
	packages, types = make(map[string]*size), make(map[string]*size)
	for _, f := range s.files {
		if f.test || f.generated {
			continue
		}
		data, err := fs.ReadFile(tree, f.path)
		if err != nil {
			t.Fatal(err)
		}
		dir := f.dir
		if dir == "" {
			dir = f.ast.Name.Name
		}
		of := entry(packages, dir)
		of.lines += bytes.Count(data, []byte("\n"))
		of.files++
		for _, decl := range f.ast.Decls {
			of.names += measure(decl, func(name string) *size { return entry(types, dir+"."+name) })
		}
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
