// SPDX-License-Identifier: Apache-2.0

package glob

import (
	"fmt"
	"strings"
	"unicode"
)

// lookalikes are characters that are written for others, and what was meant.
var lookalikes = strings.NewReplacer(
	"“", `"`, "”", `"`, "„", `"`, "‟", `"`, "«", `"`, "»", `"`,
	"‘", "'", "’", "'", "‚", "'", "‛", "'",
	"–", "-", "—", "-", "−", "-", "‐", "-", "‑", "-",
	"∗", "*", "⁎", "*", "×", "x", "…", "...", "∶", ":", "ː", ":", "։", ":", "⁄", "/", "∕", "/",
)

// Strange says what in a pattern is surely not meant; empty if there is nothing.
func Strange(key string) string {
	latin := func(r rune) bool { return unicode.Is(unicode.Latin, r) }
	for _, r := range key {
		if r >= ' ' && r <= '~' {
			continue // as most keys are, throughout
		}
		meant := lookalikes.Replace(string(r))
		if r >= '！' && r <= '～' { // full width
			meant = string(r - '！' + '!')
		}
		switch {
		case meant != string(r):
			return fmt.Sprintf("has the character %c (%U), which looks like %s and is not: write %[3]s", r, r, meant)
		case !unicode.IsPrint(r):
			return fmt.Sprintf("has the character %U, which cannot be seen: remove it", r)
		case unicode.In(r, unicode.Cyrillic, unicode.Greek) && strings.ContainsFunc(key, latin):
			return fmt.Sprintf("has the letter %c (%U) beside Latin letters, which it may look like: type the key again", r, r)
		}
	}
	if strings.TrimSpace(key) != key {
		return "begins or ends with a space: remove it"
	}
	return regexpIn(key)
}

// regexpIn says what in a key has a meaning in a regular expression, in a shell or in a template
// of the middleware, and none in a glob; empty if there is nothing. It leaves out what many keys
// have, such as .* and {id}.
func regexpIn(key string) string {
	for _, begin := range []string{"${", "{header:"} {
		if _, rest, found := strings.Cut(key, begin); found {
			name, _, _ := strings.Cut(rest, "}")
			return fmt.Sprintf("has %s%s}, which stands for itself only: write its value, or a *", begin, name)
		}
	}
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open:], '}'); n > 0 && strings.Contains(key[open:open+n], ",") {
			return fmt.Sprintf("has %s, which stands for itself only: write a rule for each, or a *", key[open:open+n+1])
		}
	}
	if open := strings.IndexByte(key, '('); open >= 0 {
		if n := strings.IndexByte(key[open:], ')'); n > 0 && strings.Contains(key[open:open+n], "|") {
			return fmt.Sprintf("has %s, which stands for itself only: write a rule for each, or a *", key[open:open+n+1])
		}
	}
	for _, class := range []struct{ written, glob string }{{`\d`, "[0-9]"}, {`\w`, "[a-zA-Z0-9_]"}, {".+", "?*"}} {
		if strings.Contains(strings.ReplaceAll(key, `\\`, ""), class.written) {
			return fmt.Sprintf("has %s, which a glob does not know: write %s", class.written, class.glob)
		}
	}
	if strings.HasPrefix(key, "^") {
		return "begins with ^, which stands for itself only: remove it, because a glob matches whole keys"
	}
	return ""
}
