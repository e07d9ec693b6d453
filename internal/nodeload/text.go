// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"fmt"
	"strings"
)

// thousands is n with commas.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// plain is Markdown without its stars and backquotes.
func plain(s string) string { return strings.NewReplacer("**", "", "`", "").Replace(s) }
