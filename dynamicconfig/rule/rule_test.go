// SPDX-License-Identifier: Apache-2.0

package rule

import "testing"

func TestOnlyWildcardsMakeAGlob(t *testing.T) {
	for key, want := range map[string]bool{"a:b": false, `a\*`: false, "a:*": true, "a?": true, "[a]": true, "[": false} {
		if got := (&Rule{Key: key}).IsGlob(); got != want {
			t.Errorf("IsGlob of %q = %v", key, got)
		}
	}
}
