// SPDX-License-Identifier: Apache-2.0

package gossip

import "github.com/uber-go/tally/v4"

// metrics are the keys there are; messages that were sent, and those of them
// that nobody answered; rows that were heard; tokens that others used and that
// are not paid back; and keys that there was no room for.
type metrics struct {
	keys                                  tally.Gauge
	sent, unanswered, rows, lost, refused tally.Counter
}

func newMetrics(scope tally.Scope) metrics {
	scope = scope.SubScope("gossip")
	return metrics{
		keys:       scope.Gauge("keys"),
		sent:       scope.Counter("sent"),
		unanswered: scope.Counter("unanswered"),
		rows:       scope.Counter("rows_heard"),
		lost:       scope.Counter("tokens_not_paid_back"),
		refused:    scope.Counter("keys_refused"),
	}
}
