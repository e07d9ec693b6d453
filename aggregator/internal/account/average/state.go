// SPDX-License-Identifier: Apache-2.0

package average

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// State implements account.Account. Weights follow demand after two reports of each host.
func (a *Account) State(now time.Duration, limit algorithm.Limit) account.State {
	bound := account.Unbounded
	if a.floor == algorithm.FloorNone || a.floor == algorithm.FloorUnused {
		bound = 2 * limit.Rate * a.settings.Interval.Seconds()
	}
	return account.State{Over: a.meter.Over(now, limit, a.settings.Interval), Bound: bound}
}

// Holdings implements account.Account.
func (a *Account) Holdings(_ time.Duration, limit algorithm.Limit, yield func(account.Holding) bool) {
	for i, r := range a.ledger.rows.All {
		h := account.Holding{Host: a.ledger.rows.Host(i), Wants: r.faded(a.settings.Stages).Total(), LastReport: r.last}
		switch {
		case r.away:
		case a.kept != nil:
			h.Weight, _ = a.kept.Part(h.Host)
			h.Weight *= a.rest(limit)
		default:
			h.Weight = a.grant(limit, h.Wants).Weight
		}
		if !yield(h) {
			return
		}
	}
}
