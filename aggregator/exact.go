// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"strings"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/rpc/usage"
)

// exact is the one bucket of a key, which is asked for each event.
type exact struct {
	bucket exactbucket.Bucket
	learned
	settings *settings // that bucket's rule is of
	part     float64   // of the rule's limit that it has
	child    bool      // the part is what a cluster above leases to this one
	idle     bool      // nothing is lost by forgetting it

	asked  float64       // tokens, since
	since  time.Duration // the last look at
	wanted float64       // how many are asked for lately, per second
}

var _ taking = (*exact)(nil)

// Report implements account.Account. A host that reports usage of an exact key has
// not heard of its rule: what it used since the key came here is charged.
func (e *exact) Report(now time.Duration, limit algorithm.Limit, _ uint32, r *account.Report) (account.Grant, bool) {
	part := min(float64(now-e.came)/float64(max(r.Elapsed, 1)), 1)
	e.bucket.Charge(now, part*r.Allowed, -limit.Burst)
	return account.Grant{}, false
}

// Expire implements account.Account.
func (e *exact) Expire(now time.Duration, _ func(host uint32)) {
	e.idle = e.bucket.Full(now) && !(e.child && e.asked > 0) // else the lease would be lost
	if d := (now - e.since).Seconds(); d > 0.1 {
		e.wanted += (e.asked/d - e.wanted) / 2
		e.asked, e.since = 0, now
	}
}

// Trim implements account.Account.
func (e *exact) Trim(time.Duration, func(host uint32)) {}

// Configure implements account.Account: each take brings the rule.
func (e *exact) Configure(time.Duration, *account.Config) {}

// Demand implements account.Account: what is asked for lately, in tokens/s.
func (e *exact) Demand(yield func(account.Band) bool) {
	yield(account.Band{Clients: int64(e.Hosts()), Wants: e.wanted})
}

// Hosts implements account.Account: a bucket that is full need not be kept.
func (e *exact) Hosts() int {
	if e.idle {
		return 0
	}
	return 1
}

// Knows implements account.Account.
func (e *exact) Knows(uint32) bool { return false }

// Fetch implements account.Account.
func (e *exact) Fetch(uint32, int32) (number int32, read int) { return none, 0 }

// Beside implements account.Account.
func (e *exact) Beside(int32) (read int) { return 0 }

// newExact makes a full bucket, if there is room.
func (a *Aggregator) newExact(s *settings, now time.Duration, rule *dynamicconfig.Rule, text string) *key {
	if a.keys.Add(1) > s.maxKeys {
		a.keys.Add(-1)
		a.metrics.noRoom.Inc(1)
		return nil
	}
	k := &key{text: strings.Clone(text), settings: s, rule: rule}
	k.account = &exact{
		bucket:   exactbucket.New(now, bucketRule(rule, k.limit(1))),
		learned:  newLearned(now),
		settings: s,
		part:     1,
		child:    rule.Parent,
		since:    now,
	}
	return k
}

// take implements taking.
func (e *exact) take(now time.Duration, k *key, t *usage.Take, by, _ uint32) usage.Took {
	e.follow(now, k)
	e.asked += max(t.Tokens, 0)
	return e.serve(now, &e.bucket, t, by, deepest(k.rule, k.limit(e.part)))
}

// follow puts the bucket under the rule of k.
func (e *exact) follow(now time.Duration, k *key) {
	if part := k.part(now); e.settings != k.settings || e.part != part {
		e.settings, e.part, e.child = k.settings, part, k.rule.Parent
		e.bucket.Follow(now, bucketRule(k.rule, k.limit(part)))
	}
}

// abandoned reports whether k has a bucket, and neither a rule nor anybody who
// took from it lately.
func (k *key) abandoned(now, lately time.Duration) bool {
	e, ok := k.account.(*exact)
	return ok && k.rule == nil && now-e.last > lately
}

// level implements taking.
func (e *exact) level(now time.Duration, k *key) (tokens float64, full bool) {
	e.follow(now, k)
	return e.bucket.Level(now), e.bucket.Full(now)
}
