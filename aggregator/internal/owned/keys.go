// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/hosts"
	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/aggregator/internal/table"
	"github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// Keys are all keys of one owner. The exported fields but Left do not change once they are in use.
// A method that has a shard as an argument is for one who holds the shard's lock; the
// others are safe for concurrent use.
type Keys struct {
	Table    *table.Table[*Key]
	Hosts    *hosts.Numbers
	Parent   *parent.Client
	Accounts Accounts
	NoRoom   func() // is called for each key or host that there is no room for

	// Began is called for each key that is new here, unless its earlier owner hands it
	// over. Lost says that a host holds a grant or a lease of it, or knows that its
	// bucket is not full: there was an earlier owner. A bucket that is measured is never Lost.
	Began func(lost bool)

	// Left is set once the keys are handed over. They are not decided here any more: the
	// next owner would not learn of it. Only what is done under a shard's lock may rely on it.
	Left atomic.Bool

	moved atomic.Int64 // when keys last moved between owners
	count atomic.Int64
}

// Shard is a part of the table, and Map a part of that.
type Shard = table.Shard[*Key]

// Map has the keys of a shard under one algorithm.
type Map = table.Map[*Key]

// NewKeys returns no keys, with the accounts that there are.
func NewKeys(above *parent.Client, noRoom func(), began func(lost bool)) *Keys {
	return &Keys{Table: table.New[*Key](), Hosts: hosts.New(), Parent: above, Accounts: builtin, NoRoom: noRoom, Began: began}
}

// Len is how many keys there are.
func (ks *Keys) Len() int64 { return ks.count.Load() }

// Moved says that keys may have moved between owners at now.
func (ks *Keys) Moved(now time.Duration) { ks.moved.Store(int64(now)) }

// Find returns the key called text, which may be under another name of its account until
// now; nil if it is not there. Later is set if a later rule has been there before.
func (ks *Keys) Find(now time.Duration, sh *Shard, s *rules.Settings, named string, hash uint64, text string) (k *Key, later bool) {
	b := sh.Map(named)
	if k = b.Find(hash, text); k != nil {
		return k, false
	}
	if !ks.arrive(now, sh, s, named, hash, text) {
		return nil, true
	}
	return b.Find(hash, text), false
}

// Make makes the key called text, which is not in sh, under the rule of c and the
// algorithm called named; nil if there is no room.
func (ks *Keys) Make(now time.Duration, sh *Shard, s *rules.Settings, c *account.Config, named string, hash uint64, text string) *Key {
	moved := time.Duration(ks.moved.Load())
	if !ks.Parent.Owns(text) { // hosts know a ring that this host does not know yet
		moved = now
	}
	kept := ks.Accounts[c.Algorithm.Account](now, moved, c)
	if ks.count.Add(1) > s.MaxKeys {
		ks.count.Add(-1)
		ks.NoRoom()
		return nil
	}
	k, b := New(now, strings.Clone(text), s, c, kept), sh.Map(named)
	b.Add(hash, k)
	ks.raise(now, sh, b, k)
	return k
}

// Adopt is Key.Adopt of k, which is in sh, unless s has k's account go on under another
// name: then k goes to the map of that, if the key is not there.
func (ks *Keys) Adopt(now time.Duration, sh *Shard, k *Key, s *rules.Settings, named string, hash uint64) bool {
	if s.Number > k.Settings.Number && (!k.Settings.Shadows(k.Rule, named) || rules.Disabled(k.Rule)) { // of two accounts, the one that answered goes on
		rule, instead := s.Match(k.text, named)
		if to := s.Successor(instead, named); rule == nil && to != "" && sh.Map(to).Find(hash, k.text) == nil {
			if c, err := s.Config(instead, to); err == nil {
				ks.carry(now, sh, k, s, c, named, to, hash)
				return false
			}
		}
	}
	return ks.Keep(now, sh, k, s, named)
}

// Keep is Key.Adopt of k, which is in sh under the algorithm called named. From now on k
// has a cluster above if its rule wants one.
func (ks *Keys) Keep(now time.Duration, sh *Shard, k *Key, s *rules.Settings, named string) bool {
	kept := k.Adopt(now, s, named)
	ks.raise(now, sh, sh.Map(named), k)
	return kept
}

// carry takes k, with all that its account has, from one map to another.
func (ks *Keys) carry(now time.Duration, sh *Shard, k *Key, s *rules.Settings, c *account.Config, from, to string, hash uint64) {
	sh.Map(from).Remove(hash, k)
	k.Count(-1)
	k.Reach(now, c)
	b := sh.Map(to)
	b.Add(hash, k)
	k.Follow(now, s, to)
	ks.raise(now, sh, b, k)
}

// arrive has the key called text, if its account is under another name than s has it, go
// to the map called named. It returns false if a later rule has been there before.
func (ks *Keys) arrive(now time.Duration, sh *Shard, s *rules.Settings, named string, hash uint64, text string) bool {
	for b := range sh.Maps {
		other := b.Algorithm()
		if other == named {
			continue
		}
		k := b.Find(hash, text)
		if k == nil || !s.Alike(other, named) {
			continue
		}
		if k.Settings.Number > s.Number {
			return false
		}
		ks.Adopt(now, sh, k, s, other, hash)
	}
	return true
}

// raise gives k, which is in sh, a cluster above if its rule has one by now. When
// it has none any more, Key.Adopt takes it away.
func (ks *Keys) raise(now time.Duration, sh *Shard, b *Map, k *Key) {
	if k.Rule != nil && k.Rule.Parent && k.Above == nil {
		k.Above = ks.Parent.Raise(now, parent.Key{Text: k.text, Account: k.Account, Lock: sh, Leased: k.filled}, k.Rule, k.Settings.Shadows(k.Rule, b.Algorithm()), k.Settings.Accounts.Interval)
	}
}

// Sweep forgets what is too old in one key, and the key if it has no use. A key whose
// algorithm panics stays. Look is called with the state of a key that stays and has a rule,
// while sh is locked.
func (ks *Keys) Sweep(now time.Duration, s *rules.Settings, sh *Shard, e table.Entry[*Key], look func(rule *dynamicconfig.Rule, state account.State)) (err error) {
	now = sh.Lock(now)
	defer sh.Unlock()
	defer rpc.Recovered(&err)

	b, k := sh.Map(e.Algorithm), e.Key
	if b.Find(e.Hash, k.text) != k {
		return nil // another GC was here
	}
	if !ks.Adopt(now, sh, k, s, e.Algorithm, e.Hash) && b.Find(e.Hash, k.text) != k {
		return nil // it is in another map, of which the next GC takes care
	}
	l, leases := k.Account.(account.Leaser)
	owns := ks.Parent.Owns(k.text)
	if leases && !owns {
		l.Elsewhere(now + s.Accounts.Interval) // when the next sweep is due
	}
	over := ended(s, k, e.Algorithm)
	if k.Account.Expire(now, ks.Hosts.Gone); over {
		k.Account.Expire(now+forever, ks.Hosts.Gone) // with what hosts hold, because no host reports it again
	}
	if leases {
		l.Swept(now)
	}
	learns := leases && owns && l.Learns(now, false) // a new account would not, if this owner stood still
	if k.Account.Hosts() == 0 && (over || !learns && !k.Keeps(now, s.Accounts.Average.GCAfter)) {
		b.Remove(e.Hash, k)
		k.Count(-1)
		ks.count.Add(-1)
		k.Above = k.Above.Follow(nil, false)
	} else if k.Rule != nil {
		look(k.Rule, k.State(now))
	}
	return nil
}

// forever is a time after which no host is known.
const forever = 365 * 24 * time.Hour

// ended reports whether k, which is under s and the algorithm called named, is a pool that the rule
// does not have decide or measured any more, while another pool of the key answers, or none is needed.
func ended(s *rules.Settings, k *Key, named string) bool {
	if k.Rule != nil {
		return false
	}
	_, instead := s.Match(k.text, named)
	_, measured := dynamicconfig.Plain(named)
	return measured || rules.IsPooled(named) && s.Successor(instead, named) != ""
}
