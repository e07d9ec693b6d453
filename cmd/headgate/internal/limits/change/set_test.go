// SPDX-License-Identifier: Apache-2.0

package change

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
)

// Every field of a rule has a flag that says what it is for.
func TestSetHasAFlagForEachField(t *testing.T) {
	cmd := newSet()
	for _, name := range dynamicconfig.RuleFields() {
		if f := cmd.Flags().Lookup(strings.ReplaceAll(name, "_", "-")); name != "key" && name != "limit" && (f == nil || f.Usage == "") {
			t.Errorf("no flag for %s, or no usage", name)
		}
	}
}
