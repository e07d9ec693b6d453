// SPDX-License-Identifier: Apache-2.0

package scopes_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/internal/scopes"
)

// A guarded scope counts what the scope behind it would.
func TestAGuardedScopeCounts(t *testing.T) {
	root := tally.NewTestScope("", nil)
	scope := scopes.Guard(root, slog.New(slog.DiscardHandler))
	if scopes.Guard(scope, nil) != scope {
		t.Error("a guarded scope is guarded again")
	}
	below := scope.SubScope("a").Tagged(map[string]string{"b": "c"})
	below.Counter("n").Inc(3)
	below.Gauge("g").Update(4)
	below.Timer("t").Record(time.Second)
	h := below.Histogram("h", tally.DurationBuckets{time.Second, time.Minute})
	h.RecordDuration(30 * time.Second)
	h.Start().Stop()
	below.Histogram("v", tally.ValueBuckets{1, 2}).RecordValue(2)
	all := root.Snapshot()
	if n := all.Counters()["a.n+b=c"]; n == nil || n.Value() != 3 {
		t.Error("the counter is wrong")
	}
	if g := all.Gauges()["a.g+b=c"]; g == nil || g.Value() != 4 {
		t.Error("the gauge is wrong")
	}
	if d := all.Timers()["a.t+b=c"]; d == nil || len(d.Values()) != 1 {
		t.Error("the timer is wrong")
	}
	durations, values := all.Histograms()["a.h+b=c"], all.Histograms()["a.v+b=c"]
	if durations == nil || durations.Durations()[time.Minute] != 1 || durations.Durations()[time.Second] != 1 {
		t.Error("the histogram of durations is wrong")
	}
	if values == nil || values.Values()[2] != 1 {
		t.Error("the histogram of values is wrong")
	}
	if scope.Capabilities() != root.Capabilities() {
		t.Error("the capabilities are others")
	}
	scopes.Guard(nil, nil).Counter("n").Inc(1)
}
