// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"slices"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/aggregator/internal/table"
	"github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// Leases returns the amounts that hosts hold at now, under s, of keys that are leased out, as
// claims to keep them. Of a rule that migrates, only the algorithm that answers counts.
func (ks *Keys) Leases(now time.Duration, s *rules.Settings) (rows []claims.Claim) {
	for sh := range ks.Table.All {
		for _, e := range sh.Entries() {
			rows = ks.leases(rows, now, s, sh, e)
		}
	}
	return rows
}

// leases adds what hosts hold of the key of e.
func (ks *Keys) leases(rows []claims.Claim, now time.Duration, s *rules.Settings, sh *Shard, e table.Entry[*Key]) []claims.Claim {
	now = sh.Lock(now)
	defer sh.Unlock()

	k, named := e.Key, e.Algorithm
	if !ks.Adopt(now, sh, k, s, named, e.Hash) && k.Rule != nil { // it is under another name now
		named = s.Answering(k.Rule)
	}
	leaser, ok := k.Account.(account.Leaser)
	if !ok || k.Rule == nil || k.Settings.Shadows(k.Rule, named) {
		return rows
	}
	k.Account.Expire(now, ks.Hosts.Gone)
	for host, claim := range leaser.Held {
		claim.Key, claim.Host, claim.Has = k.text, ks.Hosts.Name(host), min(claim.Has, rpc.MaxAmount)
		claim.Bands = slices.Clone(claim.Bands)
		for i := range claim.Bands {
			parent.Bound(&claim.Bands[i])
		}
		if claim.Host != "" {
			rows = append(rows, claim)
		}
	}
	return rows
}

// Buckets returns the levels at now of the buckets of keys for which moved is true, as
// takes of no tokens that the owner with number by answered. A full bucket of which no
// host holds anything has no row.
func (ks *Keys) Buckets(now time.Duration, by uint32, moved func(key string) bool) (rows []usage.Take) {
	for sh := range ks.Table.All {
		for _, e := range sh.Entries() {
			if !moved(e.Key.text) {
				continue
			}
			at := sh.Lock(now)
			row, ok := e.Key.leave(at)
			sh.Unlock()
			_, row.Measured = dynamicconfig.Plain(e.Algorithm)
			if row.By = by; ok {
				rows = append(rows, row)
			}
		}
	}
	return rows
}
