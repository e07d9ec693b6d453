// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/admin/api/lasthour"
)

// Programs choose the names of keys. An operator who looks at what a change would do obeys no
// control character in them.
func TestNamesOfStrangersChangeNoTerminal(t *testing.T) {
	const evil = "a\x1b[2J\rb\u202ec"
	for name, print := range map[string]func(io.Writer) error{
		"dry-run": func(w io.Writer) error {
			return printDryRun(w, &lasthour.DryRun{Keys: []lasthour.DryKey{{Key: evil, Rule: evil}}}, time.Now())
		},
		"suggest": func(w io.Writer) error { return printSuggestions(w, []lasthour.Suggestion{{Key: evil}}) },
	} {
		var out bytes.Buffer
		if err := print(&out); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.ContainsAny(text, "\x1b\r\u202e") || !strings.Contains(text, `a\x1b[2J\rb\u202ec`) {
			t.Errorf("%s prints %q", name, text)
		}
	}
}
