// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

// pooled are the names of one account, by how hosts reach it. A rule that names one
// of them instead of another changes how hosts reach the pool. A rule that migrates
// from one to another has an account under each.
var pooled = [...]string{algorithm.NameExact, algorithm.NameAuto, algorithm.NameElastic}

func isPooled(name string) bool {
	return name == algorithm.NameExact || name == algorithm.NameAuto || name == algorithm.NameElastic
}

// successor is the name under which rule wants the pool of a key that is under the
// one called named: another of pooled, or none.
func (s *settings) successor(rule *dynamicconfig.Rule, named string) string {
	if rule == nil || rule.InFlight || bypassed(rule) || !isPooled(named) || mentions(s.registry, rule, named) {
		return ""
	}
	if to := s.registry.Canonical(answering(rule)); isPooled(to) {
		return to
	}
	return ""
}

// adopt is key.adopt of k, which is in sh, unless s has hosts reach k's pool in another
// way: then k goes to the book of that, if the key is not there.
func (a *Aggregator) adopt(now time.Duration, sh *shard, k *key, s *settings, named string, hash uint64) bool {
	if s.number > k.settings.number && !k.settings.shadows(k.rule, named) { // of two accounts, the one that answered goes on
		rule, instead := s.match(k.text, named)
		if to := s.successor(instead, named); rule == nil && to != "" && sh.Book(to).Find(hash, k.text) == nil {
			if c, err := s.config(instead, to); err == nil {
				a.carry(now, sh, k, s, c, named, to, hash)
				return false
			}
		}
	}
	return k.adopt(now, s, named)
}

// carry takes k, with all that its account has, from one book to another.
func (a *Aggregator) carry(now time.Duration, sh *shard, k *key, s *settings, c *account.Config, from, to string, hash uint64) {
	sh.Book(from).Remove(hash, k)
	k.leave()
	k.reach(now, c)
	b := sh.Book(to)
	b.Add(hash, k)
	k.follow(now, s, to)
	a.raise(now, sh, b, k)
}

// reach has hosts reach k's pool as c says.
func (k *key) reach(now time.Duration, c *account.Config) {
	u, wraps := k.account.(*asked)
	held, _ := k.account.(account.Pooled) // all of pooled are
	if wraps {
		held = u.Bucketed
	}
	held = held.Reach(now, c)
	switch b, ok := held.(account.Bucketed); {
	case !ok:
		k.account = held
	case wraps:
		u.Bucketed, u.always = b, c.Algorithm.Reach == algorithm.ReachAlways
	default:
		k.account = newAsked(now, b, c.Algorithm.Reach == algorithm.ReachAlways)
	}
	k.above.Becomes(k.account)
}

// arrive has the key called text, if its pool is under another name than s has it, go
// to the book called named. It returns false if a later rule has been there before.
func (a *Aggregator) arrive(now time.Duration, sh *shard, s *settings, named string, hash uint64, text string) bool {
	if !isPooled(named) {
		return true
	}
	for _, other := range pooled {
		if other == named {
			continue
		}
		k := sh.Book(other).Find(hash, text)
		if k == nil {
			continue
		}
		if k.settings.number > s.number {
			return false
		}
		a.adopt(now, sh, k, s, other, hash)
	}
	return true
}
