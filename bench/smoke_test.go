// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryBenchmarkRuns runs each once, with tiny sizes, in a process of its
// own: that is how testing runs benchmarks as it does by hand.
func TestEveryBenchmarkRuns(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), program,
		"-test.run=^$", "-test.bench=.", "-test.benchtime=1x", "-test.cpu=2", "-test.short").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "Benchmark") {
				continue
			}
			seen++
			if !bytes.Contains(output, []byte(f.Name.Name+"/")) {
				t.Errorf("%s measured nothing", f.Name.Name)
			}
		}
	}
	if seen == 0 {
		t.Error("there are no benchmarks")
	}
}
