// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"strings"
	"testing"
)

// Parse refuses characters that look like YAML's and are not. The error names the character, its place and what to do.
func TestWhatLooksLikeYAMLIsNamed(t *testing.T) {
	const space, conflict = "write a space instead", "git left a conflict here: keep what is meant"
	many := "limits:\n" + strings.Repeat("  - key: a\n    limit: 10/s\n", 500)
	for text, want := range map[string]string{
		"limits:\n  - key: a\n\u00a0   limit: 10/s\n":           "limits:3:1: U+00A0 looks like a space, and is a letter in YAML: " + space,
		"limits:\n\u00a0\u00a0- key: a\n    limit: 10/s\n":      "limits:2:1: U+00A0 looks",
		"limits:\n  - \u00a0key: a\n":                           "limits:2:5: U+00A0 looks",
		"limits:\n  - {\u3000key: a}\n":                         "limits:2:6: U+3000 looks",
		"limits:\n  - key: a\n    limit:\u00a010/s\n":           space,
		"limits:\n  -\u00a0key: a\n    limit: 10/s\n":           space,
		"limits: []\n\ufefflimits: []\n":                        "limits:2:1: U+FEFF cannot be seen, and is a letter in YAML: remove it",
		"limits:\n  - key: a\n    limit： 10/s\n":                "write : and a space instead of ：",
		"limits:\n  – key: a\n    limit: 10/s\n":                "begin an item with - and a space",
		"limits:\r  - key: a\r    limit: 10/s\r":                "limits:1:8: a line ends with a carriage return (CR) alone: save the file with the line ends of Unix",
		many + "<<<<<<< HEAD\n  - key: b\n=======\n" + many[8:]: "limits:1002:1: " + conflict,
		"<<<<<<< HEAD\nlimits: []\n":                            "limits:1:1: " + conflict,
		"limits:\n||||||| base\n":                               conflict,
		"limits: []\n=======\n":                                 conflict,
		"limits: []\n>>>>>>> other\n":                           conflict,
	} {
		_, err := Parse("limits", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "there is no field") {
			t.Errorf("%.80q: %v\nwant %s", text, err, want)
		}
	}
	for _, text := range []string{
		"limits:\n  - key: a\n    limit: 10/s\n    description: |\n      \u00a0<<<<<<< a\n      =======\n",
		"limits:\n  - key: a\n    limit: 10/s\n    description: \u00a0a\n# =======\n",
	} {
		if _, err := Parse("limits", []byte(text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}
