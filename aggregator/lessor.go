// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc/claims"
)

// lessor is a key whose capacity is leased out. Hosts that report usage and
// hosts that claim amounts are in one account.
type lessor struct {
	key     *key
	account *algorithm.Leases
	learns  time.Duration // until when
	granted algorithm.Lease
	band    [1]algorithm.Band // of a host that reports usage; made once
}

var _ algorithm.Key = (*lessor)(nil)

// newLessor begins k's account. What the key's rule says about bands follows
// in adopt.
func newLessor(k *key, alg algorithm.Leasing, learns time.Duration) *lessor {
	return &lessor{key: k, account: alg.NewLeases(), learns: learns}
}

// adopt has the bands of l shared as the key's rule says.
func (l *lessor) adopt(s *settings, old map[int64]string) {
	for priority := range old {
		l.account.Within(priority, nil)
	}
	for priority, name := range l.key.rule.Priorities {
		if alg, err := s.registry.Lookup(name); err == nil {
			if a, ok := alg.(algorithm.Leasing); ok {
				l.account.Within(priority, a)
			}
		}
	}
}

// Report implements algorithm.Key: a host's usage is a claim in the band of
// its rule. How often hosts report is up to the config, so every report counts.
func (l *lessor) Report(now time.Duration, limit algorithm.Limit, host uint32, r *algorithm.Report) (algorithm.Grant, bool) {
	l.band[0] = algorithm.Band{Priority: l.key.rule.Priority, Clients: 1, Wants: r.Wants}
	claim := algorithm.Claim{Has: r.Has * float64(l.key.rule.Limit), Bands: l.band[:], Headroom: true}
	if r.Elsewhere {
		if claim.Keep = true; r.Has == 0 {
			claim.Keep, claim.Bands = false, nil
		}
		l.claim(now, 0, limit.Rate, host, claim)
		return algorithm.Grant{}, false
	}
	l.claim(now, 0, limit.Rate, host, claim)
	if l.granted.Learning && r.Has == 0 {
		return algorithm.Grant{}, false // it goes on with its fallback
	}
	if !(limit.Rate > 0) {
		return algorithm.Grant{}, true
	}
	weight := min(l.granted.Amount/limit.Rate, 1)
	burst := limit.Burst * weight
	return algorithm.Grant{Weight: weight, Burst: burst, Tokens: burst}, true
}

// claim has host claim a part of so much, which it gets a new answer for after
// recalculate.
func (l *lessor) claim(now, recalculate time.Duration, amount float64, host uint32, c algorithm.Claim) {
	rule := l.key.rule
	l.granted = l.account.Claim(now,
		// When a lease from above ends, all those below do, and hosts report no later for it.
		algorithm.Terms{Lease: l.key.lease(now), Remember: rule.Lease, Recalculate: recalculate, LearnUntil: l.learnsUntil()},
		algorithm.Capacity{Amount: amount, Whole: rule.InFlight, Overcommit: rule.Overcommit},
		host, c)
	// Once so much is out as there is, no other lease can be out that this
	// owner does not know of.
	if now < l.learns && !l.key.waits() && l.account.Leased() >= amount*(1+rule.Overcommit)*nearly && amount > 0 {
		l.learns = now
	}
}

// learnsUntil is until when hosts get back what they have. While the cluster above
// has not said what there is, that goes on for up to a lease, which is how long
// what an earlier owner got from it may have lasted.
func (l *lessor) learnsUntil() time.Duration {
	if l.key.waits() {
		return l.learns + l.key.rule.Lease
	}
	return l.learns
}

// nearly makes up for what rounding and weights do to sums.
const nearly = 1 - 1e-3

// Expire implements algorithm.Key.
func (l *lessor) Expire(now time.Duration, gone func(host uint32)) { l.account.Expire(now, gone) }

// Follow implements algorithm.Key: leases are as long as the rule says.
func (l *lessor) Follow(time.Duration, time.Duration) {}

// Hosts implements algorithm.Key.
func (l *lessor) Hosts() int { return l.account.Hosts() }

// Knows implements algorithm.Key.
func (l *lessor) Knows(host uint32) bool { return l.account.Knows(host) }

// Fetch implements algorithm.Key.
func (l *lessor) Fetch(uint32, int32) (number int32, read int) { return none, 0 }

// bands of c, for algorithms.
func bands(to []algorithm.Band, from []claims.Band) []algorithm.Band {
	for _, b := range from {
		to = append(to, algorithm.Band{Priority: b.Priority, Clients: b.Clients, Wants: b.Wants})
	}
	return to
}
