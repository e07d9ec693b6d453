// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"maps"
	"math"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// key is what the aggregator knows of one key under one algorithm.
type key struct {
	text     string
	settings *settings // under which rule was found
	rule     *dynamicconfig.Rule
	state    algorithm.Key // of a Stateful or Leasing algorithm, instead of ledger and round
	above    *above        // where the capacity comes from; nil: from the rule
	learns   time.Duration // until when hosts keep what an earlier owner gave them

	// Here a cache line ends, and two begin.

	ledger ledger
	round  *round // of an algorithm that looks at all hosts at once

	// Whole cache lines: neighbours are other processors' keys.
}

// adopt brings k, which is in the book of the algorithm called named, under s at
// now, unless it is under later ones. It returns false if no rule has that
// algorithm decide about k. Gone is called for hosts that are forgotten.
func (k *key) adopt(now time.Duration, s *settings, named string, gone func(host uint32)) bool {
	if s.number <= k.settings.number {
		return k.rule != nil
	}
	before := k.settings.average
	switch {
	case k.state == nil && before != s.average:
		k.ledger.restage()
	case k.state != nil && before.Interval != s.average.Interval:
		k.state.Follow(now, s.average.Interval)
	}
	old := k.rule
	k.leave()
	k.rule, _ = s.match(k.text, named)
	k.settings, k.round = s, nil
	k.enter()
	if k.rule == nil || !k.rule.Parent {
		k.above = nil
	}
	k.rebuild(now, old, named, gone)
	if l, ok := k.state.(*lessor); ok && k.rule != nil {
		l.adopt(s, priorities(old))
	}
	return k.rule != nil
}

// rebuild begins the state of k anew if its parameters are not those of old any
// more. With parameters that cannot be used, it goes on as it was.
func (k *key) rebuild(now time.Duration, old *dynamicconfig.Rule, named string, gone func(host uint32)) {
	if maps.Equal(parameters(old), parameters(k.rule)) {
		return
	}
	switch k.state.(type) {
	case nil, *lessor, *exact:
		return
	}
	alg, err := k.settings.algorithm(k.rule, named)
	if err != nil {
		return // the next report of a new key is told, and the log
	}
	st, ok := alg.(algorithm.Stateful)
	if !ok {
		return
	}
	if state := stateOf(st, now, k.settings.cluster); state != nil {
		k.state.Expire(math.MaxInt64, gone)
		k.state = state
	}
}

func parameters(rule *dynamicconfig.Rule) map[string]string {
	if rule == nil {
		return nil
	}
	return rule.Parameters
}

func priorities(rule *dynamicconfig.Rule) map[int64]string {
	if rule == nil {
		return nil
	}
	return rule.Priorities
}

// expire forgets what is too old at now.
func (k *key) expire(now time.Duration, gone func(host uint32)) {
	if k.state != nil {
		k.state.Expire(now, gone)
		return
	}
	if now >= k.ledger.due {
		k.ledger.advance(now, k.settings.stages, gone)
	}
}

func (k *key) hosts() int {
	if k.state != nil {
		return k.state.Hosts()
	}
	return k.ledger.len()
}

func (k *key) knows(host uint32) bool {
	if k.state != nil {
		return k.state.Knows(host)
	}
	return k.ledger.knows(host)
}

// fetch reads from each cache line of k.
func (k *key) fetch() int {
	n := len(k.text)
	if k.state != nil {
		return n + k.state.Hosts()
	}
	return n + k.ledger.len() + int(k.ledger.fresh.tail)
}

// fetchRow reads what a report of host needs to read beside k. It returns the
// number of the host's row, which likely is guess, or none if k does not know
// the host, or does not tell.
func (k *key) fetchRow(host uint32, guess int32) (number int32, read int) {
	if k.state != nil {
		return k.state.Fetch(host, guess)
	}
	return k.ledger.rows.FindAt(guess, host), 0
}

// limit is what k's hosts share at now: part of its rule's.
func (k *key) limit(part float64) algorithm.Limit {
	return algorithm.Limit{Rate: part * float64(k.rule.Limit), Burst: part * k.rule.Burst}
}

// part of its rule's limit that k's hosts share at now, in [0, 1].
func (k *key) part(now time.Duration) float64 {
	if k.above == nil {
		return 1
	}
	return k.partAbove(now)
}

// partAbove is part of a key that has a cluster above.
func (k *key) partAbove(now time.Duration) float64 {
	if limit := float64(k.rule.Limit); limit > 0 {
		return min(k.capacity(now)/limit, 1)
	}
	return 0
}

// waits tells whether k does not know yet what its hosts share. Each of them
// goes on with what it had, or with its fallback.
func (k *key) waits() bool { return k.above != nil && !k.above.given }

// clients is for how many k's hosts speak.
func (k *key) clients() (n float64) {
	l, ok := k.state.(*lessor)
	if !ok {
		return float64(k.hosts())
	}
	for b := range l.account.Demand {
		n += float64(b.Clients)
	}
	return n
}

// lease is for how long to lease at now: no longer than the cluster above does.
func (k *key) lease(now time.Duration) time.Duration {
	if k.above == nil || now >= k.above.until {
		return k.rule.Lease // what is safe is so for ever
	}
	return min(k.rule.Lease, k.above.until-now)
}

// refresh is after how long to ask again: in half the time from level to level.
func (k *key) refresh() time.Duration {
	switch {
	case k.above == nil:
		return k.rule.Refresh
	case !k.above.given:
		return min(k.rule.Refresh, again)
	}
	return max(min(k.rule.Refresh, k.above.fresh/2), minRefresh)
}

// soon is after how long to ask again. Who is short of what others still hold asks
// a few times while these come to give it back.
func (k *key) soon(short bool) time.Duration {
	refresh := k.refresh()
	if !short {
		return refresh
	}
	return min(refresh, max(refresh/shortRefreshes, k.recalculate(), minRefresh))
}

// shortRefreshes is how many times in a refresh a host asks that is short.
const shortRefreshes = 4

// recalculate is after how long asking again may change the answer: in a tree
// at the latest when it is time to ask again.
func (k *key) recalculate() time.Duration {
	switch recalculate := max(k.rule.Recalculate, 0); {
	case k.above == nil:
		return recalculate
	case !k.above.given:
		return 0
	default:
		return min(recalculate, k.refresh())
	}
}

// demand is row i of usage as rates. Reports that follow each other closely say
// little: less than shortest, which is a second or the interval if that is less,
// counts as that.
func demand(u *usage.Report, i int, shortest time.Duration) algorithm.Rates {
	seconds := float64(max(u.Elapsed[i], shortest)) * 1e-9
	return algorithm.Rates{Allowed: float64(u.Allowed[i]) / seconds, Rejected: float64(u.Rejected[i]) / seconds}
}

// report makes r row i of usage for k's state, which has part of the limit to
// share.
func (k *key) report(r *algorithm.Report, u *usage.Report, i int, part float64) {
	r.Allowed, r.Rejected = float64(u.Allowed[i]), float64(u.Rejected[i])
	r.Elapsed, r.Has, r.Cost = u.Elapsed[i], u.Weight[i], 1
	if part > 0 && part < 1 {
		if _, amounts := k.state.(*lessor); !amounts {
			r.Has = min(r.Has/part, 1)
		}
	}
	if u.Cost != nil {
		r.Cost = max(u.Cost[i], 1)
	}
	if u.Wants != nil {
		r.Wants = u.Wants[i]
	} else {
		r.Wants = demand(u, i, k.settings.shortest).Total()
	}
}
