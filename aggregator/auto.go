// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/rpc/usage"
)

// auto is a key whose hosts report, and ask for what their grants do not cover.
type auto struct {
	account.Bucketed
	learned
}

var _ taking = (*auto)(nil)

// take implements taking.
func (u *auto) take(now time.Duration, k *key, t *usage.Take, by, host uint32) usage.Took {
	limit := k.limit(k.part(now))
	b := u.Bucket(now, bucketRule(k.rule, limit))
	if t.By != 0 && t.By != by || t.More > 0 && !u.Holds(host) { // it has a grant of another owner
		u.Moved(now)
		b = u.Bucket(now, bucketRule(k.rule, limit))
	}
	cost := t.Tokens // serve changes it
	took := u.serve(now, b, t, by, deepest(k.rule, limit))
	u.Settle(now)
	if t.More > 0 && took.OK && took.Wait == 0 {
		took.Lent = u.Lend(now, host, t.More, k.rule.Burst-t.More, t.Wants, cost)
		took.Left -= took.Lent
	}
	if !took.OK && t.More > 0 {
		took.Retry = max(took.Retry, u.Patience(host, cost))
	}
	return took
}

// level implements taking. What hosts hold is not in it.
func (u *auto) level(now time.Duration, k *key) (tokens float64, full bool) {
	b := u.Bucket(now, bucketRule(k.rule, k.limit(k.part(now))))
	defer u.Settle(now)

	return b.Level(now), b.Full(now)
}

// keeps tells whether k's account is worth keeping at now though no host is
// known: what was taken from it is not to come back at once.
func (k *key) keeps(now time.Duration) bool {
	u, ok := k.account.(*auto)
	if !ok || k.rule == nil {
		return false
	}
	_, full := u.level(now, k)
	return !full
}
