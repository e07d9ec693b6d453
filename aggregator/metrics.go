// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator/internal/excess"
)

// metrics are held counters: looking one up costs more than a key's update.
type metrics struct {
	keys, hosts                                                 tally.Gauge
	newKeys, lostKeys                                           tally.Counter
	updates, updatedKeys, refused, noRoom, invalid, overlapping tally.Counter
	overdue                                                     tally.Counter

	claimMetrics
	takeMetrics
	excesses *excess.Gauges
}

type claimMetrics struct{ claims, claimsRefused, unmatched tally.Counter }

type takeMetrics struct {
	takes, undecided, repeated  tally.Counter
	handed, handedRefused, late tally.Counter
}

func newMetrics(scope tally.Scope) metrics {
	over := excess.New(scope)
	scope = scope.SubScope("aggregator")
	return metrics{
		excesses:    over,
		keys:        scope.Gauge("keys"),
		hosts:       scope.Gauge("hosts"),
		newKeys:     scope.Counter("keys_new"),
		lostKeys:    scope.Counter("keys_lost"),
		updates:     scope.Counter("updates"),
		updatedKeys: scope.Counter("updated_keys"),
		refused:     scope.Counter("updates_refused"),
		noRoom:      scope.Counter("keys_without_grant"),
		overlapping: scope.Counter("overlapping_reports"),
		invalid:     scope.Counter("invalid_grants"),
		overdue:     scope.Counter("messages_overdue"),
		claimMetrics: claimMetrics{
			claims:        scope.Counter("claims"),
			claimsRefused: scope.Counter("claims_refused"),
			unmatched:     scope.Counter("claims_unmatched"),
		},
		takeMetrics: takeMetrics{
			takes:         scope.Counter("takes"),
			undecided:     scope.Counter("takes_undecided"),
			repeated:      scope.Counter("takes_repeated"),
			handed:        scope.Counter("handovers"),
			handedRefused: scope.Counter("handovers_refused"),
			late:          scope.Counter("messages_after_leaving"),
		},
	}
}
