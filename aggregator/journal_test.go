// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

// The log says what a part has to be when a weighting returns a negative one.
// The log has a stack only of code that panicked.
func TestTheLogSaysWhatAPartHasToBe(t *testing.T) {
	mine := algorithm.Pair(algorithm.AccountPool, "mine")
	var log bytes.Buffer
	a := New(registryWith(t, "mine", func(_ float64, demands []algorithm.Demand, parts []float64) {
		for i := range demands {
			parts[i] = -1
		}
	}), snapshot(t, cadence, dynamicconfig.Rule{Key: "k", Limit: 100, Algorithm: mine, Lease: time.Minute, Learning: dynamicconfig.None}),
		WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	a.Moved(-time.Hour) // so it has nothing to learn
	for i := range 3 {
		step(t, a, time.Duration(i)*cadence.UpdateInterval, "a", reportOf(mine, 10, 10, time.Second, "k"))
	}
	if said := log.String(); !strings.Contains(said, "it gave a host the weight -0.01") || !strings.Contains(said, "each part is a number, at least 0, and at most the limit") || strings.Contains(said, "stack=") {
		t.Errorf("the log says\n%s", said)
	}
}
