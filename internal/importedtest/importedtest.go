// SPDX-License-Identifier: Apache-2.0

// Package importedtest tests packages that import the config of another program. It does not know
// which program that is.
package importedtest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/goldentest"
)

// Import makes limits of data, the text of the file called name.
type Import func(name string, data []byte) ([]byte, error)

// Goldens imports each file of testdata as the one called name. Each has beside it the limits that
// importing makes of it, or, if its name begins with broken-, what importing says of the mistakes.
func Goldens(t *testing.T, name string, importing Import) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d files, error %v", len(files), err)
	}
	for _, file := range files {
		path := strings.TrimSuffix(file, ".yaml")
		t.Run(filepath.Base(path), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			out, err := importing(name, data)
			if broken := strings.HasPrefix(filepath.Base(file), "broken-"); broken != (err != nil) {
				t.Fatalf("Import = %v", err)
			}
			if err != nil {
				if one := new(dynamicconfig.Error); !errors.As(err, &one) || one.Name != name || out != nil {
					t.Errorf("Import = %q, %#v", out, err)
				}
				out = []byte(err.Error() + "\n")
			}
			goldentest.Same(t, path+".golden", string(out))
		})
	}
}

// Failing is a *testing.T or a *rapid.T.
type Failing interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Snapshot is the limits that importing makes of text, the file called name.
func Snapshot(t Failing, name string, importing Import, text string) *dynamicconfig.Snapshot {
	t.Helper()
	out, err := importing(name, []byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	s, err := dynamicconfig.Parse("limits.yaml", out)
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return s
}
