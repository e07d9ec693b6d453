// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"errors"

	"github.com/uber-go/tally/v4"
)

// metrics are counters that are held, because looking one up costs more than
// a decision. A decision that is made here and granted touches none.
type metrics struct {
	keys, fallbacks                            tally.Gauge
	unmatched, badGrants, answered, unanswered tally.Counter
	soft, enforced, remoteFailures, skipped    tally.Counter
	droppedEvents                              tally.Counter
	refusals                                   map[error]tally.Counter
}

func newMetrics(scope tally.Scope) metrics {
	scope = scope.SubScope("limiter")
	refused := func(reason string) tally.Counter {
		return scope.Tagged(map[string]string{"reason": reason}).Counter("refused")
	}
	return metrics{
		keys:       scope.Gauge("keys"),
		fallbacks:  scope.Gauge("fallbacks"),
		unmatched:  scope.Counter("unmatched_keys"),
		badGrants:  scope.Counter("bad_grants"),
		answered:   scope.Counter("updates_answered"),
		unanswered: scope.Counter("updates_unanswered"),

		soft:           scope.Counter("soft"),
		enforced:       scope.Counter("enforced"),
		remoteFailures: scope.Counter("remote_failures"),
		droppedEvents:  scope.Counter("events_dropped"),
		skipped:        scope.Counter("background_skipped"),
		refusals: map[error]tally.Counter{
			ErrInvalidKey:  refused("invalid_key"),
			ErrTooManyKeys: refused("too_many_keys"),
			ErrUnmatched:   refused("unmatched"),
		},
	}
}

func (m metrics) refused(err error) {
	for sentinel, counter := range m.refusals {
		if errors.Is(err, sentinel) {
			counter.Inc(1)
		}
	}
}

func (m metrics) report(keys, fallbacks int) {
	m.keys.Update(float64(keys))
	m.fallbacks.Update(float64(fallbacks))
}
