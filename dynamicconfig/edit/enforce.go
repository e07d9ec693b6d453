// SPDX-License-Identifier: Apache-2.0

package edit

import (
	"fmt"
	"strconv"

	"github.com/headgate/headgate/dynamicconfig"
)

// Enforce returns the text of to as a first step to it: rules that are new or differ from
// those of from are enforced for at most percent percent. Limits on slots in flight have no
// part that is enforced, and are as in to.
func Enforce(from, to *dynamicconfig.Snapshot, percent float64) (string, error) {
	text := to.Text()
	if percent >= 100 {
		return text, nil
	}
	rules := make(map[string]dynamicconfig.Rule)
	for _, r := range to.Rules() {
		rules[r.Key] = r
	}
	var keys []string
	for _, c := range dynamicconfig.Diff(from, to) {
		r, ok := rules[c.Name]
		if c.Section == "limits" && c.Kind != dynamicconfig.Reordered && ok && !r.InFlight && 100*r.Enforced() > percent {
			keys = append(keys, c.Name)
		}
	}
	text, err := setAll(text, keys, []Field{{Name: "enforce", Value: strconv.FormatFloat(percent, 'f', -1, 64) + "%"}})
	if err != nil {
		return "", fmt.Errorf("enforce %v%% of the rules that change: %w", percent, err)
	}
	return text, nil
}
