// SPDX-License-Identifier: Apache-2.0

package redis

import "github.com/uber-go/tally/v4"

// metrics are how often Redis was asked: it answered, it failed, or it was not
// asked after all, because it had failed lately; and of how many parts that is
// so now.
type metrics struct {
	answered, failed, paused tally.Counter
	pausing                  tally.Gauge
}

func newMetrics(scope tally.Scope) metrics {
	scope = scope.SubScope("redis")
	return metrics{
		answered: scope.Counter("answered"),
		failed:   scope.Counter("failed"),
		paused:   scope.Counter("not_asked"),
		pausing:  scope.Gauge("paused"),
	}
}
