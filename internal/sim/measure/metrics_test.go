// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"os"
	"strings"
	"testing"
)

func TestDocumentsDefineAllMetrics(t *testing.T) {
	accuracy, err := os.ReadFile("../../../docs/accuracy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"utilisation_pct", "false_reject_pct", "over_pct", "over_later_pct", "settle_s", "reports_per_host_s", "bytes_per_host_s", "asks_per_host_s",
		"events_per_host_s", "rejected_pct", "waited_pct", "wait_p50_ms", "wait_p99_ms", "fairness", "saturated_pct",
	} {
		if !strings.Contains(string(accuracy), "`"+name+"`") {
			t.Errorf("docs/accuracy.md does not define %s", name)
		}
	}
}
