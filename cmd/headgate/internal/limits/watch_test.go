// SPDX-License-Identifier: Apache-2.0

package limits

import (
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/runtest"
)

func TestWatchesThatMakeNoSense(t *testing.T) {
	on := []string{"--limits-db", t.TempDir(), "apply", runtest.File(t, "limits.yaml", shop), "-m", "x"}
	for want, flags := range map[string][]string{
		"as in 5%":               {"--watch", "1m", "--roll-back-above", "5"},
		"as in --watch 5m":       {"--roll-back-above", "5%"},
		"at most 1h0m0s":         {"--watch", "2h"},
		"say which decider":      {"--watch", "1m"},
		"a percentage below 100": {"--watch", "1m", "--roll-back-above", "NaN%"},
		"percentages that grow":  {"--enforce", "10,5,100"},
		"from above 0 to 100":    {"--enforce", "0,100"},
		"the last step is 100":   {"--enforce", "10,50"},
		"with --every":           {"--enforce", "10,100", "--watch", "1m"},
		"from 5s to 1h0m0s":      {"--enforce", "10,100", "--every", "1s"},
		"in steps: say":          {"--enforce", "10,100"},
	} {
		refused(t, want, append(on, flags...)...)
	}
}
