// SPDX-License-Identifier: Apache-2.0

package doorman

import (
	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/rpc/claims"
)

// metrics are held counters. Requests count calls, the rest resources.
type metrics struct {
	discovery, capacity, serverCapacity, release tally.Counter // requests
	invalid                                      tally.Counter // requests
	resources, unknown, learning, refused        tally.Counter
	unanswered, leftOut                          tally.Counter
	clamped                                      tally.Counter // numbers
}

func newMetrics(scope tally.Scope) metrics {
	scope = scope.SubScope("doorman")
	requests := func(method string) tally.Counter {
		return scope.Tagged(map[string]string{"method": method}).Counter("requests")
	}
	return metrics{
		discovery:      requests("discovery"),
		capacity:       requests("get_capacity"),
		serverCapacity: requests("get_server_capacity"),
		release:        requests("release_capacity"),
		invalid:        scope.Counter("requests_invalid"),
		resources:      scope.Counter("resources"),
		unknown:        scope.Counter("resources_unknown"),
		learning:       scope.Counter("resources_learning"),
		refused:        scope.Counter("resources_refused"),
		unanswered:     scope.Counter("resources_unanswered"),
		leftOut:        scope.Counter("resources_left_out"),
		clamped:        scope.Counter("numbers_clamped"),
	}
}

// count counts what became of the resources of one request.
func (m *metrics) count(leases *claims.Leases, errs []error) {
	var unknown, learning, refused int64
	for i := range leases.Rows {
		l := &leases.Rows[i]
		if l.Unknown {
			unknown++
		}
		if l.Learning {
			learning++
		}
		if l.Refused != "" {
			refused++
		}
	}
	m.resources.Inc(int64(len(leases.Rows)))
	m.unknown.Inc(unknown)
	m.learning.Inc(learning)
	m.refused.Inc(refused)
	m.unanswered.Inc(int64(failed(errs)))
}
