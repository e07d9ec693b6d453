// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/aggregator/internal/rules"
)

// adopt is Key.Adopt of k, which is in sh, unless s has hosts reach k's pool in another
// way: then k goes to the book of that, if the key is not there.
func (a *Aggregator) adopt(now time.Duration, sh *shard, k *owned.Key, s *rules.Settings, named string, hash uint64) bool {
	if s.Number > k.Settings.Number && !k.Settings.Shadows(k.Rule, named) { // of two accounts, the one that answered goes on
		rule, instead := s.Match(k.Text(), named)
		if to := s.Successor(instead, named); rule == nil && to != "" && sh.Book(to).Find(hash, k.Text()) == nil {
			if c, err := s.Config(instead, to); err == nil {
				a.carry(now, sh, k, s, c, named, to, hash)
				return false
			}
		}
	}
	return k.Adopt(now, s, named)
}

// carry takes k, with all that its account has, from one book to another.
func (a *Aggregator) carry(now time.Duration, sh *shard, k *owned.Key, s *rules.Settings, c *account.Config, from, to string, hash uint64) {
	sh.Book(from).Remove(hash, k)
	k.Count(-1)
	k.Reach(now, c)
	b := sh.Book(to)
	b.Add(hash, k)
	k.Follow(now, s, to)
	a.raise(now, sh, b, k)
}

// arrive has the key called text, if its pool is under another name than s has it, go
// to the book called named. It returns false if a later rule has been there before.
func (a *Aggregator) arrive(now time.Duration, sh *shard, s *rules.Settings, named string, hash uint64, text string) bool {
	if !rules.IsPooled(named) {
		return true
	}
	for _, other := range rules.Pooled {
		if other == named {
			continue
		}
		k := sh.Book(other).Find(hash, text)
		if k == nil {
			continue
		}
		if k.Settings.Number > s.Number {
			return false
		}
		a.adopt(now, sh, k, s, other, hash)
	}
	return true
}
