// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/owned"
)

// Known is what the owner of a key knows of it under one algorithm: State, in tokens, or in
// slots where the rule limits those.
type Known struct {
	Algorithm string
	account.State

	// Hosts are those that the owner knows, sorted by name.
	Hosts []KnownHost
}

// KnownHost is what the owner of a key knows of one host.
type KnownHost struct {
	Name string

	// Wants is the host's demand, in tokens/s or slots, Weight the part of the limit that
	// it holds as a rate or an amount, or that is left to its fallback, and Lent the tokens
	// that it holds beside that.
	Wants, Weight, Lent float64

	// Silent is how long ago the host reported, and Lease how long its lease still lasts;
	// negative if that is not kept.
	Silent, Lease time.Duration
}

// Look returns what the owner knows of key at now, sorted by algorithm: nothing if key is not
// owned here, or if no host uses it. Look changes nothing.
func (c *Core) Look(now time.Duration, key string) []Known {
	all := c.look(now, key)
	for _, k := range all {
		slices.SortFunc(k.Hosts, func(a, b KnownHost) int { return strings.Compare(a.Name, b.Name) })
	}
	slices.SortFunc(all, func(a, b Known) int { return strings.Compare(a.Algorithm, b.Algorithm) })
	return all
}

// look is Look in no order. Others wait for the lock that it holds.
func (c *Core) look(now time.Duration, key string) (all []Known) {
	hash := c.keys.Table.Hash(key)
	sh := c.keys.Table.Shard(hash)
	now = sh.Lock(now)
	defer sh.Unlock()

	for m := range sh.Maps {
		if k := m.Find(hash, key); k != nil && k.Rule != nil {
			all = append(all, c.known(now, m.Algorithm(), k))
		}
	}
	return all
}

// Keys returns the keys that are owned here and that hosts use, in no order.
func (c *Core) Keys() (all []string) {
	for sh := range c.keys.Table.All {
		for _, e := range sh.Entries() {
			all = append(all, e.Key.Text())
		}
	}
	return all
}

// known returns what is known of k, whose shard is locked.
func (c *Core) known(now time.Duration, algorithm string, k *owned.Key) Known {
	limit := k.Limit(k.Part(now))
	out := Known{Algorithm: algorithm, State: k.Account.State(now, limit)}
	k.Account.Holdings(now, limit, func(h account.Holding) bool {
		known := KnownHost{Name: c.keys.Hosts.Name(h.Host), Wants: h.Wants, Weight: h.Weight, Lent: h.Lent, Silent: -1, Lease: -1}
		if h.LastReport != 0 {
			known.Silent = now - h.LastReport
		}
		if h.Until != 0 {
			known.Lease = max(h.Until-now, 0)
		}
		out.Hosts = append(out.Hosts, known)
		return true
	})
	return out
}
