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

// A dry run compares limits. Of a file that changes only an algorithm, it must not say that the keys
// were not used.
func TestDryRunSaysThatItLooksOnlyAtLimits(t *testing.T) {
	var out bytes.Buffer
	now := time.Now()
	if err := printDryRun(&out, &lasthour.DryRun{Since: now.Add(-time.Minute)}, now); err != nil || out.String() != "no key whose limit it changes was used during the last 1m0s\n" {
		t.Errorf("%v, %s", err, out.String())
	}
}

// The summary says how many keys a change would harm, also when it would harm none.
func TestDryRunSaysWhichKeysWouldBeRejectedMore(t *testing.T) {
	now := time.Now()
	for would, want := range map[float64]string{
		10: "10.0% of what was asked for in the last 1m0s was rejected, and 10.0% would have been\nno key that it changes would have been rejected more\n",
		30: "10.0% of what was asked for in the last 1m0s was rejected, and 30.0% would have been\n1 of the 1 key that it changes, at up to 3 hosts, would have been rejected more\n",
	} {
		d := lasthour.DryRun{Since: now.Add(-time.Minute), Offered: 100, Rejected: 10, Would: would, Keys: []lasthour.DryKey{{Key: "k", Hosts: 3}}}
		d.Keys[0].Offered, d.Keys[0].Rejected, d.Keys[0].Would = 100, 10, would
		var out bytes.Buffer
		if err := printDryRun(&out, &d, now); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%v, %q, want %q", err, out.String(), want)
		}
	}
}
