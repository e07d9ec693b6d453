// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
	"github.com/headgate/headgate/dynamicconfig/sql/sqlite"
)

// A digit in the newest version is another on the disk. A change of one rule would store it as if somebody had
// meant it.
func TestNothingIsMadeOfADamagedVersion(t *testing.T) {
	t.Setenv("EDITOR", "true")
	t.Setenv("VISUAL", "")
	db := t.TempDir()
	on := []string{"--limits-db", db, "-m", "x"}
	file := runtest.File(t, "limits.yaml", "limits:\n  - {key: a, limit: 3333/s}\n  - {key: b, limit: 1/s}\n")
	must(t, append(on, "apply", file)...)
	path := filepath.Join(db, sqlite.FileName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte("3333/s"), []byte("9333/s")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"set", "b", "2/s"}, {"rm", "b"}, {"override", "b", "2x", "--for", "1h"}, {"edit"}} {
		refused(t, "version 1 is damaged", append(args, on...)...)
	}
	must(t, append(on, "apply", file)...)
	runtest.Expect(t, "show", must(t, "show", "--limits-db", db, "a"), "limit: 3333/s")
}
