// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// taking is the state of a key from which tokens are taken one by one.
type taking interface {
	account.Account

	// take serves t, of key k, for the owner whose number is by, and asked by host.
	// The Tokens of t become what was taken.
	take(now time.Duration, k *key, t *usage.Take, by, host uint32) usage.Took

	// level is what is left, and whether nothing is missing.
	level(now time.Duration, k *key) (tokens float64, full bool)
}

// bucketRule is rule for a bucket, with a limit of its own.
func bucketRule(rule *dynamicconfig.Rule, limit algorithm.Limit) exactbucket.Rule {
	return exactbucket.Rule{Rate: limit.Rate, Burst: limit.Burst, MaxWait: rule.MaxWait, MaxDebt: rule.MaxDebt, MaxCost: rule.MaxCost}
}

// deepest is the level that what is spent already, or what a caller was told,
// may bring a bucket of rule with this limit to: as deep as events that are
// allowed within max_wait or max_debt bring it, and then a burst and one event of
// the largest cost. Without it, one message could close a key for ever.
func deepest(rule *dynamicconfig.Rule, limit algorithm.Limit) float64 {
	borrowed := limit.Rate * max(rule.MaxDebt, rule.MaxWait, 0).Seconds()
	return -min(limit.Burst+borrowed+rule.Costliest(), rpc.MaxTokens)
}

// names tells whether rule has the algorithm called name decide, or measured.
func names(rule *dynamicconfig.Rule, name string) bool { return !rule.InFlight && mentions(rule, name) }

// mentions is names for rules of slots in flight too.
func mentions(rule *dynamicconfig.Rule, name string) bool {
	if m := rule.Migration; m != nil {
		return m.From == name || m.To == name
	}
	return rule.Algorithm == name
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
	state, _ := k.account.(taking) // it is one
	return state.take(now, k, t, a.number, host)
}

// taking finds or makes the key that t is from in sh, which is locked; nil if
// there is none.
func (a *Aggregator) taking(sh *shard, now time.Duration, hash uint64, t *usage.Take) *key {
	name := algorithm.NameExact
	if t.Auto {
		name = algorithm.NameAuto
	}
	b := sh.Book(name)
	s := a.settings.Load()
	k := b.Find(hash, t.Key)
	if k == nil {
		if k = a.newTaking(b, s, now, name, hash, t.Key); k == nil {
			return nil
		}
	}
	if _, ok := k.account.(taking); !ok || !k.adopt(now, s, name) || !names(k.rule, name) {
		return nil
	}
	return k
}

// newTaking makes a key and puts it into b, if there is a rule for it, and
// room.
func (a *Aggregator) newTaking(b *book, s *settings, now time.Duration, name string, hash uint64, text string) *key {
	rule, ok := s.snapshot.Match(text)
	if !ok || rule == nil || !names(rule, name) {
		return nil
	}
	isAuto := name == algorithm.NameAuto
	if !s.places.enter(rule, isAuto) {
		a.metrics.noRoom.Inc(1)
		return nil
	}
	var k *key
	if isAuto {
		k = a.newAuto(b, s, now, rule, hash, text)
	} else if k = a.newExact(s, now, rule, text); k != nil {
		b.Add(hash, k)
		a.raise(now, a.table.Shard(hash), b, k)
	}
	if k == nil {
		s.places[placeOf(rule, isAuto)].Add(-1)
	}
	return k
}

// newAuto makes a key under auto and puts it into b, if there is room.
func (a *Aggregator) newAuto(b *book, s *settings, now time.Duration, rule *dynamicconfig.Rule, hash uint64, text string) *key {
	c, err := s.config(rule, algorithm.NameAuto)
	if err != nil {
		return nil // this owner does not know it
	}
	k, err := a.newKey(b, s, c, hash, text, now)
	if err != nil {
		return nil // newKey counts it
	}
	return k
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
		a.take(now, nobody, &back)
	}
}
