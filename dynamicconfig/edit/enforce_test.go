// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"maps"
	"strings"
	"testing"

	"github.com/headgate/headgate/dynamicconfig"
)

// A step enforces rules that change, and no others, and none for more than the file says.
func TestTheStepsOfAChange(t *testing.T) {
	parse := func(text string) *dynamicconfig.Snapshot {
		t.Helper()
		s, err := dynamicconfig.Parse("limits", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	from := parse("limits:\n  - {key: same, limit: 1/s}\n  - {key: less, limit: 9/s}\n  - {key: gone, limit: 1/s}\n  - {key: mild, limit: 2/s}\n  - {key: slots, limit: 5 in-flight}\n")
	to := parse("limits:\n  - {key: same, limit: 1/s}\n  - {key: less, limit: 3/s} # why\n  - {key: new, limit: 1/s}\n  - {key: mild, limit: 1/s, enforce: 20%}\n  - {key: slots, limit: 2 in-flight}\n")
	for percent, want := range map[float64]map[string]string{
		12.5: {"same": "", "less": "12.5%", "new": "12.5%", "mild": "12.5%", "slots": ""},
		50:   {"same": "", "less": "50%", "new": "50%", "mild": "20%", "slots": ""},
		100:  {"same": "", "less": "", "new": "", "mild": "20%", "slots": ""},
	} {
		text, err := Enforce(from, to, percent)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range parse(text).Rules() {
			if got, _ := maps.Collect(r.Fields())["enforce"].(string); got != want[r.Key] {
				t.Errorf("at %v%%, %s is enforced for %q, want %q", percent, r.Key, got, want[r.Key])
			}
			delete(want, r.Key)
		}
		if len(want) > 0 {
			t.Errorf("at %v%%, no rules %v in\n%s", percent, want, text)
		}
		if !strings.Contains(text, "# why") || percent == 100 && text != to.Text() {
			t.Errorf("at %v%%, the text is\n%s", percent, text)
		}
	}
}
