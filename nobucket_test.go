// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

// A refund for a bucket that the key's owner has no more, because the rule has moved, is no failure of the owner, and
// falls back to nothing. A key that needs its bucket, which the owner does not have, falls back: the log says
// that the owner has none, and not that it is silent.
func TestAnOwnerWithoutABucketIsNotSilent(t *testing.T) {
	for name, row := range map[string]struct {
		from, to  *dynamicconfig.Snapshot
		atOwner   bool // follows too
		fails     bool
		line, not string
	}{
		"auto":  {ruledBy(t, "auto", "10/s", 20), ruledBy(t, "even", "10/s", 20), true, false, "", "WARN"},
		"exact": {ruledBy(t, "exact", "10/s", 20), ruledBy(t, "even", "10/s", 20), true, false, "", "WARN"},
		"late":  {ruledBy(t, "even", "10/s", 20), ruledBy(t, "exact", "10/s", 20), false, true, "has no bucket for the key; the key falls back", "does not answer"},
	} {
		inBubble(t, func(t *testing.T) {
			var log bytes.Buffer
			scope := tally.NewTestScope("", nil)
			c := autoClusterOf(t, 2, 10, row.from, limiter.WithScope(scope), limiter.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			defer c.close()
			key := c.hosts[1].group.For("k")
			reserved := key.Take(t.Context(), 5, 0)
			time.Sleep(5 * time.Second)
			if row.atOwner {
				c.configure(t, row.to)
			} else {
				c.hosts[1].group.Configure(row.to)
			}
			time.Sleep(5 * time.Second)
			if row.atOwner {
				reserved.Cancel()
			} else {
				key.Allow()
				key.Allow()
			}
			time.Sleep(time.Minute)
			if got := scope.Snapshot().Counters()["limiter.remote_failures+"].Value(); (got > 0) != row.fails {
				t.Errorf("%s: %d failures are counted", name, got)
			}
			if text := log.String(); !strings.Contains(text, row.line) || strings.Contains(text, row.not) {
				t.Errorf("%s: the log is:\n%s", name, text)
			}
		})
	}
}
