// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"strconv"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/rpc/edge"
)

// metrics are held counters.
type metrics struct {
	requests  map[int]tally.Counter // by status; only read
	other     tally.Counter
	decisions [edge.Reasons]tally.Counter

	settled, unknown tally.Counter // settlements
}

func newMetrics(scope tally.Scope) *metrics {
	scope = scope.SubScope("httpapi")
	requests := func(status string) tally.Counter {
		return scope.Tagged(map[string]string{"status": status}).Counter("requests")
	}
	settlements := func(known string) tally.Counter {
		return scope.Tagged(map[string]string{"known": known}).Counter("settlements")
	}
	m := &metrics{
		requests: make(map[int]tally.Counter), other: requests("other"),
		settled: settlements("true"), unknown: settlements("false"),
	}
	for _, status := range []int{200, 400, 404, 405, 413, 415, 422, 429, 503} {
		m.requests[status] = requests(strconv.Itoa(status))
	}
	for i := range m.decisions {
		m.decisions[i] = scope.Tagged(map[string]string{"reason": edge.Reason(i).String()}).Counter("decisions")
	}
	return m
}

func (m *metrics) answered(status int) {
	if c, ok := m.requests[status]; ok {
		c.Inc(1)
		return
	}
	m.other.Inc(1)
}

func (m *metrics) decided(d *edge.Decision) {
	if int(d.Reason) < len(m.decisions) {
		m.decisions[d.Reason].Inc(1)
	}
}
