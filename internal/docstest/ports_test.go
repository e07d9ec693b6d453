// SPDX-License-Identifier: Apache-2.0

package docstest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ports are those that documents and help give to a daemon's listeners. A reader who follows
// two pages uses the same ports on both.
var ports = map[string]string{"listen": "7933", "edge": "7934", "http": "7935", "admin": "7936"}

var listener = regexp.MustCompile(`--(listen|edge|http|admin)[ =][\w.]*:(\d+)`)

func TestDocumentsAgreeOnPorts(t *testing.T) {
	root, all := repository(t)
	files, err := filepath.Glob(filepath.Join(root, "cmd", "headgate", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
	for _, p := range all {
		files = append(files, filepath.Join(root, p.path))
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range listener.FindAllStringSubmatch(string(text), -1) {
			if found++; m[2] != ports[m[1]] {
				t.Errorf("%s: %s: use port %s, as all other pages do", file, m[0], ports[m[1]])
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d addresses were found", found)
	}
}
