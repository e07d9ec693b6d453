// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"math"
	"time"

	"github.com/headgate/headgate/algorithm"
)

// round holds the grants of all hosts of a key, made in one pass of an
// algorithm that must see them all. All hosts that ask before it ends share
// it, so a host's ask does not cost more when there are more hosts.
type round struct {
	ends   time.Duration
	grants map[uint32]algorithm.Grant
}

// grant is what host gets at now, and whether it makes sense: anyone may
// write an algorithm. The ledger has been advanced to now.
func (k *key) grant(now time.Duration, alg algorithm.Algorithm, host uint32) (algorithm.Grant, bool) {
	limit := k.limit()
	var g algorithm.Grant
	if s, ok := alg.(algorithm.Summed); ok {
		g = s.Grant(limit, k.ledger.sum, k.ledger.demand(host, k.settings.stages))
	} else {
		g = k.shared(now, alg, limit)[host]
	}
	return g, sane(g)
}

// sane tells whether g may go to a host.
func sane(g algorithm.Grant) bool {
	amount := func(v float64) bool { return v >= 0 && v <= math.MaxFloat64 }
	return g.Weight >= 0 && g.Weight <= 1 && amount(g.Burst) && amount(g.Used) && amount(g.Tokens)
}

// shared are the grants of the round at now: half an interval long, or until
// another host is there.
func (k *key) shared(now time.Duration, alg algorithm.Algorithm, limit algorithm.Limit) map[uint32]algorithm.Grant {
	if k.round != nil && now < k.round.ends && len(k.round.grants) == k.ledger.len() {
		return k.round.grants
	}
	n := k.ledger.len()
	if n == 0 {
		return nil
	}
	hosts, demands, grants := make([]uint32, 0, n), make([]algorithm.Demand, 0, n), make([]algorithm.Grant, n)
	for r := range k.ledger.all {
		hosts = append(hosts, r.host)
		demands = append(demands, r.demand.Times(k.settings.stages[r.stage].Factor))
	}
	alg.Share(limit, demands, grants)
	k.round = &round{ends: now + k.settings.average.Interval/2, grants: make(map[uint32]algorithm.Grant, n)}
	for i, h := range hosts {
		k.round.grants[h] = grants[i]
	}
	return k.round.grants
}
