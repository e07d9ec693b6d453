// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/rpc/usage"
)

// bucketRule is rule for a bucket, with a limit of its own.
func bucketRule(rule *dynamicconfig.Rule, limit algorithm.Limit) exactbucket.Rule {
	return exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst, MaxWait: rule.MaxWait, MaxDebt: rule.MaxDebt, MaxCost: rule.MaxCost}
}

// mentions reports whether rule has the algorithm called name, which is a canonical
// name, decide or measured.
func mentions(registry *algorithm.Registry, rule *dynamicconfig.Rule, name string) bool {
	if m := rule.Migration; m != nil {
		return registry.Canonical(m.From) == name || registry.Canonical(m.To) == name
	}
	return registry.Canonical(rule.Algorithm) == name
}

// Take serves takes of host, which passed Check, at now, and puts the answers into
// taken. The Tokens of each row become what it took, so that it can be undone.
// Keys that are not for a bucket here, for want of a rule or of room, are not
// decided. Time is as in Step.
func (a *Aggregator) Take(now time.Duration, host string, takes *usage.Takes, taken *usage.Taken) {
	taken.By = a.number
	taken.Rows = taken.Rows[:0]
	id := a.hosts.acquire(host)
	defer a.hosts.add(id, -1)
	for i := range takes.Rows {
		taken.Rows = append(taken.Rows, a.take(now, id, &takes.Rows[i]))
	}
	a.metrics.takes.Inc(int64(len(takes.Rows)))
}

// TakeHere implements ask.Here: it is Take for one row of this process, which is
// host. It returns the owner's number too.
func (a *Aggregator) TakeHere(host string, t usage.Take) (usage.Took, uint32) {
	a.metrics.takes.Inc(1)
	id := a.hosts.acquire(host)
	defer a.hosts.add(id, -1)
	return a.take(Now(), id, &t), a.number
}

// take serves t, of host.
func (a *Aggregator) take(now time.Duration, host uint32, t *usage.Take) usage.Took {
	hash := a.table.Hash(t.Key)
	sh := a.table.Shard(hash)
	now = sh.Lock(now)
	defer sh.Unlock()

	k := a.taking(sh, now, hash, t)
	if k == nil || a.left.Load() {
		a.metrics.undecided.Inc(1)
		t.Tokens = 0
		return usage.Took{}
	}
	return k.take(now, t, a.number, host)
}

// take serves t, of k, for the owner whose number is by, and asked by host.
func (k *key) take(now time.Duration, t *usage.Take, by, host uint32) (took usage.Took) {
	switch u := k.account.(type) {
	case *asked:
		return u.take(now, k, t, by, host)
	case account.Pooled: // the host has not heard that it need not ask
		limit, l := k.limit(k.part(now)), newLearned(now)
		u.Draw(now, bucketRule(k.rule, limit), func(b *exactbucket.Bucket) {
			took = l.serve(now, b, t, by, account.Deepest(k.rule, limit))
		})
		return took
	}
	t.Tokens = 0
	return took
}

// taking finds or makes the key that t is from in sh, which is locked; nil if
// there is none.
func (a *Aggregator) taking(sh *shard, now time.Duration, hash uint64, t *usage.Take) *key {
	s := a.settings.Load()
	rule, name, ok := s.taken(t)
	if !ok {
		return nil
	}
	b := sh.Book(name)
	k := b.Find(hash, t.Key)
	if k == nil {
		if a.arrive(now, sh, s, name, hash, t.Key) {
			k = b.Find(hash, t.Key)
		}
		if k == nil {
			return a.newTaking(b, s, now, rule, name, hash, t.Key)
		}
	}
	if !a.adopt(now, sh, k, s, name, hash) {
		return nil
	}
	return k
}

// taken is the rule that says of t from what to take, and the name of that: another
// than t's if t's host has not heard of the rule.
func (s *settings) taken(t *usage.Take) (rule *dynamicconfig.Rule, name string, ok bool) {
	name = algorithm.NameExact
	if t.Auto {
		name = algorithm.NameAuto
	}
	rule, instead := s.match(t.Key, name)
	if rule == nil {
		rule, name = instead, s.successor(instead, name)
	}
	return rule, name, rule != nil && name != "" && !rule.InFlight
}

// newTaking makes a key and puts it into b, if there is room.
func (a *Aggregator) newTaking(b *book, s *settings, now time.Duration, rule *dynamicconfig.Rule, name string, hash uint64, text string) *key {
	if !s.places.enter(rule, name) {
		a.metrics.noRoom.Inc(1)
		return nil
	}
	c, err := s.config(rule, name)
	if err == nil { // else this owner does not know it
		k, err := a.newKey(b, s, c, hash, text, now)
		if err == nil && k != nil {
			return k
		}
	}
	if n := s.places[placeOf(rule, name)]; n != nil {
		n.Add(-1)
	}
	return nil
}

// undo gives back what the rows of takes took. What was lent beside it comes back
// with the host's next report.
func (a *Aggregator) undo(now time.Duration, takes *usage.Takes) {
	for _, row := range takes.Rows {
		if row.Tokens == 0 {
			continue
		}
		back := usage.Take{Key: row.Key, Auto: row.Auto, Tokens: -row.Tokens}
		if back.Tokens > 0 { // it had given them back
			back.Spent = usage.SpentBeyond
		}
		a.take(now, noHost, &back)
	}
}
