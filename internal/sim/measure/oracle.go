// SPDX-License-Identifier: Apache-2.0

package measure

import "github.com/headgate/headgate/internal/sim/traffic"

// oracle is the one bucket that a perfect limiter would be: it sees every
// event of a key, from all hosts, in order. It is deliberately simple, and
// shares no code with what it judges.
type oracle struct {
	limit, burst float64 // events/s, tokens
	tokens       float64
	at           traffic.Time
}

// newOracle returns a full bucket.
func newOracle(limit, burst float64) oracle {
	return oracle{limit: limit, burst: burst, tokens: burst}
}

// allow takes cost tokens if they are there.
func (o *oracle) allow(now traffic.Time, cost int64) bool {
	o.fill(now)
	// Rounding must not turn away what arrives exactly on time.
	if o.tokens+1e-6 < float64(cost) {
		return false
	}
	o.tokens -= float64(cost)
	return true
}

// set changes limit and burst, and keeps the tokens; fill cuts what is more
// than the new burst.
func (o *oracle) set(now traffic.Time, limit, burst float64) {
	o.fill(now)
	o.limit, o.burst = limit, burst
}

func (o *oracle) fill(now traffic.Time) {
	o.tokens = min(o.tokens+o.limit*(now-o.at).Seconds(), o.burst)
	o.at = now
}
