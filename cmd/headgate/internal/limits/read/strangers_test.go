// SPDX-License-Identifier: Apache-2.0

package read

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig/history"
)

// Operators choose the words of messages. Who looks at them obeys no control character and no mark
// of direction in them.
func TestMessagesOfOperatorsChangeNoTerminal(t *testing.T) {
	const evil = "a\x1b[2J\rb\u202ec"
	for name, print := range map[string]func(out *bytes.Buffer) error{
		"history": func(out *bytes.Buffer) error {
			return historyTable(out, []history.Version{{Author: evil, Message: evil + "\n" + evil}})
		},
		"overrides": func(out *bytes.Buffer) error {
			return overridesTable(out, []overrideLine{{Key: evil, Author: evil, Reason: evil}}, time.Now())
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
