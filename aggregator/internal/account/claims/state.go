// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// State implements account.Account.
func (a *Account) State(_ time.Duration, limit algorithm.Limit) account.State {
	s := account.State{Over: max(a.Leased()-limit.Rate, 0), Bound: account.Unbounded}
	if a.beyond.Value() == 0 && a.rule != nil {
		s.Bound = a.rule.Overcommit * limit.Rate
	}
	return s
}

// Holdings implements account.Account.
func (a *Account) Holdings(_ time.Duration, limit algorithm.Limit, yield func(account.Holding) bool) {
	for host, claim := range a.Held {
		h := account.Holding{Host: host, Until: a.Until(host)}
		for _, b := range claim.Bands {
			h.Wants += b.Wants
		}
		if limit.Rate > 0 {
			h.Weight = min(claim.Has/limit.Rate, 1)
		}
		if !yield(h) {
			return
		}
	}
}
