// SPDX-License-Identifier: Apache-2.0

package textfile_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/textfile"
)

func TestTextIsReadAsOtherSystemsWriteIt(t *testing.T) {
	for data, want := range map[string]string{
		"":                              "",
		"a\n":                           "a\n",
		"\ufeffa\r\n":                   "a\r\n",
		"\ufeff":                        "",
		"a\ufeff":                       "a\ufeff",
		"\xff\xfea\x00":                 "UTF-16",
		"\xfe\xff\x00a":                 "UTF-16",
		"\xff\xfe\x00\x00a\x00\x00\x00": "UTF-16",
		"\x00\x00\xfe\xff\x00\x00\x00a": "UTF-16",
	} {
		text, err := textfile.Text([]byte(data))
		if err != nil && strings.Contains(err.Error(), want+", as PowerShell writes it: save it as UTF-8") && want != "" {
			continue
		}
		if err != nil || string(text) != want {
			t.Errorf("%q: %q, %v", data, text, err)
		}
	}
}

func TestTheFirstLineIsNotEmpty(t *testing.T) {
	for text, want := range map[string]string{"a": "a", "a\nb": "a", " a \r\nb": " a ", "a\rb": "a\rb"} {
		if line, err := textfile.FirstLine([]byte(text)); err != nil || line != want {
			t.Errorf("%q: %q, %v", text, line, err)
		}
	}
	for _, text := range []string{"", "\n", "\r\n", "\na", " \t\n"} {
		if line, err := textfile.FirstLine([]byte(text)); err == nil || line != "" {
			t.Errorf("%q: %q, %v", text, line, err)
		}
	}
}
