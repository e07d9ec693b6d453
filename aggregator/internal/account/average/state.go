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
	all := a.ledger.sum.demand()
	for i, r := range a.ledger.rows.All {
		own := a.ledger.demand(i, a.settings.Stages)
		h := account.Holding{Host: a.ledger.rows.Host(i), Wants: own.Total(), LastReport: r.last}
		if a.kept != nil {
			h.Weight, _ = a.kept.Part(h.Host)
		} else {
			h.Weight = grant(limit, a.floor, all, own).Weight
		}
		if !yield(h) {
			return
		}
	}
}
