// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
)

// limitsMeter measures which limits are in force. One goroutine uses it.
type limitsMeter struct {
	limits                 *dynamicconfig.Live
	wasApplied, wasRefused int64 // when it last measured

	applied, refused     tally.Counter
	appliedAt, refusedAt tally.Gauge
	newest               tally.Gauge
}

func newLimitsMeter(scope tally.Scope, limits *dynamicconfig.Live) *limitsMeter {
	scope = scope.SubScope("config")
	return &limitsMeter{
		limits:  limits,
		applied: scope.Counter("applied"), refused: scope.Counter("refused"),
		appliedAt: scope.Gauge("applied_timestamp_seconds"), refusedAt: scope.Gauge("refused_timestamp_seconds"),
		newest: scope.Gauge("newest_in_force"),
	}
}

// run measures once a second, and when ctx ends.
func (m *limitsMeter) run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		m.measure()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			m.measure()
			return
		}
	}
}

func (m *limitsMeter) measure() {
	applied, refused := m.limits.Applied(), m.limits.Rejected()
	m.applied.Inc(applied - m.wasApplied)
	m.refused.Inc(refused - m.wasRefused)
	m.wasApplied, m.wasRefused = applied, refused
	m.appliedAt.Update(seconds(m.limits.Since()))
	m.refusedAt.Update(seconds(m.limits.RejectedAt()))
	newest := 1.0
	if m.limits.LastError() != nil {
		newest = 0
	}
	m.newest.Update(newest)
}

// seconds is t since 1970; 0 if t is zero.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixNano()) / 1e9
}
