// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// key is what the aggregator knows of one key under one algorithm: a cache line.
type key struct {
	text     string
	settings *settings // under which rule was found
	rule     *dynamicconfig.Rule
	account  account.Account
	above    *parent.Lease // where the capacity comes from; nil: from the rule

	trims time.Duration // no Trim before
}

// Text implements table.Key.
func (k *key) Text() string { return k.text }

// adopt brings k, which is in the book of the algorithm called named, under s at
// now, unless it is under later ones. It returns false if no rule has that
// algorithm decide about k.
func (k *key) adopt(now time.Duration, s *settings, named string) bool {
	if s.number > k.settings.number {
		k.leave()
		k.follow(now, s, named)
	}
	return k.rule != nil
}

// follow puts k, which counts nowhere, under s.
func (k *key) follow(now time.Duration, s *settings, named string) {
	k.rule, _ = s.match(k.text, named)
	k.settings = s
	k.enter()
	k.above = k.above.Follow(k.rule, s.shadows(k.rule, named))
	if c, err := s.config(k.rule, named); err == nil { // else it goes on as it was, and new keys' reports are told
		k.account.Configure(now, c)
	}
}

// room reports whether k's account knows host, or may at now: if it has max_hosts_per_key,
// k forgets the silent ones.
func (k *key) room(now time.Duration, host uint32, gone func(host uint32)) bool {
	most := k.settings.maxHosts
	if k.account.Hosts() < most || k.account.Knows(host) {
		return true
	}
	if now >= k.trims { // Trim looks at all hosts
		k.trims = now + k.settings.accounts.Interval/4
		k.account.Trim(now, gone)
	}
	return k.account.Hosts() < most
}

func parameters(rule *dynamicconfig.Rule) map[string]string {
	if rule == nil {
		return nil
	}
	return rule.Parameters
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
	return k.above.Part(now)
}

// soon is after how long to ask again. Who is short of what others still hold asks
// a few times while these come to give it back.
func (k *key) soon(short bool) time.Duration {
	refresh := k.above.Refresh(k.rule.Refresh)
	if !short {
		return refresh
	}
	return min(refresh, max(refresh/shortRefreshes, k.recalculate(), parent.MinRefresh))
}

// shortRefreshes is how many times in a refresh a host asks that is short.
const shortRefreshes = 4

// recalculate is after how long asking again may change the answer.
func (k *key) recalculate() time.Duration {
	return k.above.Recalculate(max(k.rule.Recalculate, 0), k.rule.Refresh)
}

// demand is row i of usage as rates. Reports that follow each other closely say
// little: less than shortest, which is a second or the interval if that is less,
// counts as that.
func demand(u *usage.Report, i int, shortest time.Duration) account.Rates {
	seconds := float64(max(u.Elapsed[i], shortest)) * 1e-9
	return account.Rates{Allowed: float64(u.Allowed[i]) / seconds, Rejected: float64(u.Rejected[i]) / seconds}
}

// report makes r row i of usage for k's account at now, which has part of the limit
// to share.
func (k *key) report(now time.Duration, r *account.Report, u *usage.Report, i int, part float64) {
	r.Allowed, r.Rejected = float64(u.Allowed[i]), float64(u.Rejected[i])
	r.Rates = demand(u, i, k.settings.shortest)
	r.Elapsed, r.Has, r.Cost = u.Elapsed[i], u.Weight[i], 1
	r.Lease, r.Waits = k.above.Lasts(now, k.rule.Lease), k.above.Waits()
	if part > 0 && part < 1 {
		if _, amounts := k.account.(account.Leaser); !amounts {
			r.Has = min(r.Has/part, 1)
		}
	}
	if u.Cost != nil {
		r.Cost = max(u.Cost[i], 1)
	}
	if u.Wants != nil {
		r.Wants = u.Wants[i]
	} else {
		r.Wants = r.Rates.Total()
	}
}
