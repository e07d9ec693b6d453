// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"slices"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/usage"
)

// Handover yields what hosts hold at now of the keys that a leases out, as
// claims to keep it: for the owners that take over when this one leaves. Each
// part fits in a message. Other keys need none: their hosts report what they
// have.
func (a *Aggregator) Handover(now time.Duration) (parts []*claims.Claims) {
	var rows []claims.Claim
	for sh := range a.keys.Table.All {
		for _, e := range sh.Entries() {
			rows = a.hand(rows, now, sh, e.Key, e.Algorithm)
		}
	}
	for part := range slices.Chunk(rows, rpc.MaxKeys) {
		parts = append(parts, &claims.Claims{Rows: part})
	}
	return parts
}

// hand adds what hosts hold of k.
func (a *Aggregator) hand(rows []claims.Claim, now time.Duration, sh *owned.Shard, k *owned.Key, named string) []claims.Claim {
	now = sh.Lock(now)
	defer sh.Unlock()

	leaser, ok := k.Account.(account.Leaser)
	if !ok || k.Rule == nil || k.Settings.Shadows(k.Rule, named) {
		return rows
	}
	k.Account.Expire(now, a.keys.Hosts.Gone)
	for host, claim := range leaser.Held {
		row := claims.Claim{Key: k.Text(), Host: a.keys.Hosts.Name(host), Has: min(claim.Has, rpc.MaxAmount), Keep: true, Headroom: claim.Headroom}
		for _, b := range claim.Bands {
			row.Bands = append(row.Bands, parent.WireBand(b))
		}
		if row.Host != "" {
			rows = append(rows, row)
		}
	}
	return rows
}

// HandoverBuckets stops deciding, and returns what is left at now in the
// buckets of a, as takes of nothing: for the owners that take over. A full
// bucket needs none.
func (a *Aggregator) HandoverBuckets(now time.Duration) []usage.Take {
	a.left.Store(true)
	return a.Buckets(now, func(string) bool { return true })
}

// Buckets returns what is left at now in the buckets of the keys that moved
// holds for, as HandoverBuckets does. They go on deciding, for callers that have
// not heard yet who owns the key now.
func (a *Aggregator) Buckets(now time.Duration, moved func(key string) bool) (rows []usage.Take) {
	for sh := range a.keys.Table.All {
		for _, entry := range sh.Entries() {
			if n := entry.Algorithm; n != algorithm.NameExact && n != algorithm.NameAuto || !moved(entry.Key.Text()) {
				continue
			}
			if row, ok := a.handBucket(now, sh, entry.Key); ok {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func (a *Aggregator) handBucket(now time.Duration, sh *owned.Shard, k *owned.Key) (row usage.Take, ok bool) {
	now = sh.Lock(now)
	defer sh.Unlock()

	row, ok = k.Left(now)
	row.By = a.number
	return row, ok
}
