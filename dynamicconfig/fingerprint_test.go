// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"testing"
)

// Hosts compare fingerprints while they are upgraded, so that one version of headgate must not
// change them.
func TestTheFingerprintOfAConfigurationStays(t *testing.T) {
	for text, want := range map[string]string{
		"limits: []":  "fcba8c8e8fea",
		everyField(t): "b516a62a1616",
	} {
		if got := mustParse(t, text).Version(); got != want {
			t.Errorf("the version is %s, want %s, of\n%s", got, want, text)
		}
	}
}
