// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// State implements account.Account.
func (k *Account) State(now time.Duration, limit algorithm.Limit) account.State {
	if !k.begun() {
		return account.State{Pooled: true, Tokens: limit.Burst, Bound: k.params.Overshoot(limit, 0, k.interval)}
	}
	pool := lower(k.pool+(limit.Rate-k.rates(limit.Rate))*account.Seconds(now-k.at), k.room(limit))
	return account.State{
		Pooled: true, Tokens: pool, Lent: k.lent,
		Over:  max(-pool-k.lent, 0), // an empty pool is over by 0, and not by -0
		Bound: k.params.Overshoot(limit, k.rows.Len(), k.interval),
	}
}

// State implements account.Account: nothing is lent while hosts ask for each event.
func (k *asked) State(now time.Duration, limit algorithm.Limit) account.State {
	s := k.Account.State(now, limit)
	if k.always {
		s.Bound = 0
	}
	return s
}

// Holdings implements account.Account.
func (k *Account) Holdings(_ time.Duration, _ algorithm.Limit, yield func(account.Holding) bool) {
	for i, r := range k.rows.All {
		if !yield(account.Holding{
			Host: k.rows.Host(i), Wants: float64(r.wants), Weight: r.weight, Lent: float64(r.unspent), LastReport: r.last,
		}) {
			return
		}
	}
}
