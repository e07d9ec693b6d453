// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/output"
	"github.com/headgate/headgate/internal/admin/api/events"
	"github.com/headgate/headgate/internal/admin/api/migrate"
	"github.com/headgate/headgate/internal/operators"
	"github.com/headgate/headgate/limiter/explain"
)

// The names of keys and hosts, and the texts of errors, come from strangers. An operator's
// terminal shows them, and obeys no control character in them.
func TestNamesOfStrangersChangeNoTerminal(t *testing.T) {
	const evil = "a\x1b[2J\rb\u202ec"
	text := output.Text()
	for name, print := range map[string]func(io.Writer) error{
		"explain": func(w io.Writer) error {
			return printExplanation(w, &explain.Explanation{
				Key: evil, Because: evil, Owner: evil, Rule: map[string]any{"key": evil, "description": evil},
				Hosts: []explain.Host{{Host: evil, Error: evil}, {Host: evil, Key: explain.Key{Because: evil}, Traced: true, Decisions: []explain.Decision{{Because: evil}}}},
			})
		},
		"keys": func(w io.Writer) error { return printKeys(w, []explain.Key{{Key: evil, Rule: evil}}) },
		"shadow report": func(w io.Writer) error {
			return printMigrations(w, []migrate.Migration{{Rule: evil, Keys: []migrate.Compared{{Key: evil, Host: evil}}}})
		},
		"event": func(w io.Writer) error {
			return printEvent(w, events.Event{Kind: "member", Text: evil + "\n" + evil}, &text)
		},
		"cluster": func(w io.Writer) error {
			return printCluster(w, operators.Cluster{Host: evil, Members: []operators.Member{{Address: evil, Labels: evil, Why: evil}}}, time.Now())
		},
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
