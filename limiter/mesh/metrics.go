// SPDX-License-Identifier: Apache-2.0

package mesh

import "github.com/uber-go/tally/v4"

type metrics struct {
	keys       tally.Gauge   // that have a bucket
	sent       tally.Counter // messages
	unanswered tally.Counter // messages without an answer
	rows       tally.Counter // received
	uncharged  tally.Counter // tokens that others used and that are not paid back
	refused    tally.Counter // keys above MaxKeys
}

func newMetrics(scope tally.Scope) metrics {
	scope = scope.SubScope(Name)
	return metrics{
		keys:       scope.Gauge("keys"),
		sent:       scope.Counter("sent"),
		unanswered: scope.Counter("unanswered"),
		rows:       scope.Counter("rows_received"),
		uncharged:  scope.Counter("tokens_not_paid_back"),
		refused:    scope.Counter("keys_refused"),
	}
}
