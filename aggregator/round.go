// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
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

// fewHosts is how many hosts a pass may look at for the sake of one more.
const fewHosts = 64

// grant is what host gets at now; false if the algorithm has not seen it yet.
// The ledger has been advanced to now.
// Row is the host's, or none.
func (k *key) grant(now time.Duration, part float64, by *sharing, host uint32, row int32) (g algorithm.Grant, ok bool) {
	if by.summed != nil {
		return by.summed.Grant(k.limit(part), k.ledger.sum.demand(), k.ledger.demand(row, k.settings.stages)), true
	}
	if row == none {
		return g, false
	}
	if k.round == nil || now >= k.round.ends || k.round.lacks(host, k.ledger.len()) {
		k.share(now, part, by.algorithm)
	}
	g, ok = k.round.grants[host]
	return g, ok
}

// lacks tells whether r is to be made anew for host, when there are n hosts.
// Beyond a few hosts that takes a quarter more of them, so that it costs
// little per host when all of them come to a new owner at once.
func (r *round) lacks(host uint32, n int) bool {
	if _, ok := r.grants[host]; ok {
		return false
	}
	had := len(r.grants)
	return had < fewHosts || n > had+had/4
}

// share makes a round that is half an interval long.
func (k *key) share(now time.Duration, part float64, alg algorithm.Algorithm) {
	n := k.ledger.len()
	hosts, demands, grants := make([]uint32, 0, n), make([]algorithm.Rates, 0, n), make([]algorithm.Grant, n)
	for i := range k.ledger.rows.All {
		hosts = append(hosts, k.ledger.rows.Host(i))
		demands = append(demands, k.ledger.demand(i, k.settings.stages))
	}
	alg.Share(k.limit(part), demands, grants)
	k.round = &round{ends: now + k.settings.average.Interval/2, grants: make(map[uint32]algorithm.Grant, n)}
	for i, h := range hosts {
		k.round.grants[h] = grants[i]
	}
}
