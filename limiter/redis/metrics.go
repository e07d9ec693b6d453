// SPDX-License-Identifier: Apache-2.0

package redis

import "github.com/uber-go/tally/v4"

// metrics count operations: those that Redis answered, those that it did not
// answer, and those that were not sent because it was paused, this host busy
// or the caller short of time. paused is how many shards are paused now.
type metrics struct {
	answered, failed, notAsked tally.Counter
	paused                     tally.Gauge
}

func newMetrics(scope tally.Scope) metrics {
	scope = scope.SubScope("redis")
	return metrics{
		answered: scope.Counter("answered"),
		failed:   scope.Counter("failed"),
		notAsked: scope.Counter("not_asked"),
		paused:   scope.Gauge("paused"),
	}
}
