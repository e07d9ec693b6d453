// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestALimitingHostLinksNoDecider follows the imports of this package through
// the module, by parsing: a test that runs go list is cached and passes when it
// should not.
func TestALimitingHostLinksNoDecider(t *testing.T) {
	const module = "github.com/headgate/headgate"
	never := []string{
		"go.uber.org/yarpc", "go.uber.org/fx", "testing", "github.com/spf13/cobra",
		module + "/aggregator", module + "/algorithm", module + "/ringpop", module + "/shadow", module + "/internal",
	}
	// These import nothing of ours.
	leaves := []string{module + "/internal/spelling", module + "/internal/processor", module + "/internal/breaker", module + "/internal/background", module + "/internal/printable", module + "/internal/scopes"}
	from := map[string]string{module + "/limiter/client": ""}
	todo := []string{module + "/limiter/client"}
	for len(todo) > 0 {
		pkg := todo[0]
		todo = todo[1:]
		chain := func() string {
			var chain []string
			for p := pkg; p != ""; p = from[p] {
				chain = append([]string{p}, chain...)
			}
			return strings.Join(chain, " → ")
		}
		if !slices.Contains(leaves, pkg) && (pkg == module || slices.ContainsFunc(never, func(n string) bool { return pkg == n || strings.HasPrefix(pkg, n+"/") })) {
			t.Errorf("links %s", chain())
			continue
		}
		dir, ours := strings.CutPrefix(pkg, module+"/")
		if !ours {
			continue
		}
		files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(dir), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", chain(), len(files), err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range parsed.Imports {
				path, err := strconv.Unquote(spec.Path.Value)
				if err != nil {
					t.Fatal(err)
				}
				if _, seen := from[path]; !seen {
					from[path] = pkg
					todo = append(todo, path)
				}
			}
		}
	}
	if len(from) < 20 {
		t.Errorf("only %d packages were seen", len(from))
	}
}
