// SPDX-License-Identifier: Apache-2.0

// Package goldentest compares what a test has made with a file in testdata, which `go test
// -update` writes anew. It is for tests. It does not know what the text means.
package goldentest

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Same fails t unless the file at path has got.
func Same(t testing.TB, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it anew); got:\n%s\nwant:\n%s", path, got, want)
	}
}
