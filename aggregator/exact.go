// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"strings"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// exact is the one bucket of a key, which is asked for each event.
//
// An owner that is new to a key does not know what is left. Every caller says
// what it was told last and when, by whichever owner: since then the bucket can
// have gained no more than time fills in. So each report is a bound from above,
// and the bucket is lowered to the least of them, whenever they come. What was
// taken here after a report was made comes off its bound; for that, all that
// was taken since the key came here is kept in taken.
type exact struct {
	bucket   algorithm.Bucket
	settings *settings // that bucket's rule is of
	part     float64   // of the rule's limit that it has
	child    bool      // the part is what a cluster above leases to this one
	idle     bool      // nothing is lost by forgetting it

	asked  float64       // tokens, since
	since  time.Duration // the last look at
	wanted float64       // how many are asked for lately, per second

	came  time.Duration // when the key came here
	taken float64       // since then
	last  time.Duration // when something was taken
}

var _ wanting = (*exact)(nil)

// Report implements algorithm.Key: who reports usage of an exact key has not
// heard of its rule.
func (e *exact) Report(time.Duration, algorithm.Limit, uint32, algorithm.Report) (algorithm.Grant, bool) {
	return algorithm.Grant{}, false
}

// Expire implements algorithm.Key.
func (e *exact) Expire(now time.Duration, _ func(host uint32)) {
	e.idle = e.bucket.Full(now) && !(e.child && e.asked > 0) // else the lease would be lost
	if d := (now - e.since).Seconds(); d > 0.1 {
		e.wanted += (e.asked/d - e.wanted) / 2
		e.asked, e.since = 0, now
	}
}

// Wants is what is asked for lately, in tokens/s, for the cluster above.
func (e *exact) Wants() float64 { return e.wanted }

// Hosts implements algorithm.Key: a bucket that is full need not be kept.
func (e *exact) Hosts() int {
	if e.idle {
		return 0
	}
	return 1
}

// Knows implements algorithm.Key.
func (e *exact) Knows(uint32) bool { return false }

// bucketRule is rule for a bucket, with a limit of its own.
func bucketRule(rule *dynamicconfig.Rule, limit algorithm.Limit) algorithm.BucketRule {
	return algorithm.BucketRule{
		Limit:   limit,
		MaxWait: rule.MaxWait,
		MaxDebt: rule.MaxDebt,
		MaxCost: rule.MaxCost,
	}
}

// isExact tells whether a bucket decides under rule, or is measured.
func isExact(rule *dynamicconfig.Rule) bool {
	switch m := rule.Migration; {
	case rule.InFlight:
		return false
	case m != nil:
		return m.From == algorithm.NameExact || m.To == algorithm.NameExact
	}
	return rule.Algorithm == algorithm.NameExact
}

// Take serves takes, which passed Check, at now, and puts the answers into
// taken. The Tokens of each row become what it took, so that it can be undone.
// Keys that are not for a bucket here, for want of a rule or of room, are not
// decided. Time is as in Step.
func (a *Aggregator) Take(now time.Duration, takes *rpc.Takes, taken *rpc.Taken) {
	taken.By = a.number
	taken.Rows = taken.Rows[:0]
	for i := range takes.Rows {
		taken.Rows = append(taken.Rows, a.take(now, &takes.Rows[i]))
	}
	a.metrics.takes.Inc(int64(len(takes.Rows)))
}

// TakeHere is Take for one row, for who is in the same process. It returns the
// owner's number too.
func (a *Aggregator) TakeHere(t rpc.Take) (rpc.Took, uint32) {
	a.metrics.takes.Inc(1)
	return a.take(Now(), &t), a.number
}

func (a *Aggregator) take(now time.Duration, t *rpc.Take) rpc.Took {
	hash := a.hash(t.Key)
	sh := &a.shards[shardOf(hash)]
	sh.mu.Lock()
	defer sh.mu.Unlock()

	e := a.exact(sh, now, hash, t.Key)
	if e == nil || a.left.Load() {
		a.metrics.undecided.Inc(1)
		t.Tokens = 0
		return rpc.Took{}
	}
	if t.By != 0 && t.By != a.number {
		e.learn(now, t)
	}
	return e.take(now, t)
}

// exact finds or makes the bucket of a key in sh, which is locked; nil if there
// is none.
func (a *Aggregator) exact(sh *shard, now time.Duration, hash uint64, text string) *exact {
	b := sh.books[algorithm.NameExact]
	if b == nil {
		b = sh.open(algorithm.NameExact)
	}
	s := a.settings.Load()
	k := b.find(hash, text)
	if k == nil {
		if k = a.newExact(s, now, text); k == nil {
			return nil
		}
		b.add(hash, k)
		a.raise(now, sh, k)
	}
	e, ok := k.state.(*exact)
	if !ok || !k.adopt(s, algorithm.NameExact, a.gone) || !isExact(k.rule) {
		return nil
	}
	if part := k.part(now); e.settings != k.settings || e.part != part {
		e.settings, e.part, e.child = k.settings, part, k.rule.Parent
		e.bucket.Rule(now, bucketRule(k.rule, k.limit(part)))
	}
	return e
}

// newExact makes a full bucket, if there is a rule for one, and room.
func (a *Aggregator) newExact(s *settings, now time.Duration, text string) *key {
	rule, ok := s.snapshot.Match(text)
	if !ok || rule == nil || !isExact(rule) {
		return nil
	}
	if a.keys.Add(1) > s.maxKeys {
		a.keys.Add(-1)
		a.metrics.noRoom.Inc(1)
		return nil
	}
	k := &key{text: strings.Clone(text), settings: s, rule: rule}
	k.state = &exact{
		bucket:   algorithm.NewBucket(now, bucketRule(rule, k.limit(1))),
		settings: s,
		part:     1,
		child:    rule.Parent,
		since:    now,
		came:     now,
		last:     now - rpc.MaxElapsed - 1,
	}
	return k
}

// learn lowers the bucket to what t's caller knows of it from another owner.
func (e *exact) learn(now time.Duration, t *rpc.Take) {
	told := now - t.Ago
	most := t.Told + e.bucket.Rate()*t.Ago.Seconds()
	if told < e.came {
		most -= e.taken
	}
	e.bucket.Lower(now, most)
	if told >= e.last { // the key has been elsewhere since
		e.came, e.taken = now, 0
	}
}

// take serves t. Its Tokens become what was taken.
func (e *exact) take(now time.Duration, t *rpc.Take) rpc.Took {
	took := rpc.Took{Decided: true, OK: true}
	e.asked += max(t.Tokens, 0)
	switch {
	case t.Tokens <= 0:
		e.bucket.Give(now, -t.Tokens)
	case t.Spent == rpc.SpentBeyond:
		e.bucket.Charge(now, t.Tokens, -rpc.MaxTokens)
	case t.Spent == rpc.SpentApart:
		t.Tokens = e.bucket.Charge(now, t.Tokens, -e.bucket.Burst())
	default:
		v := e.bucket.Take(now, t.Tokens, t.Longest)
		took.OK, took.Wait = v.OK, v.Wait
		if !v.OK {
			took.Retry = min(v.Retry, rpc.MaxWait)
			t.Tokens = 0
		}
	}
	if t.Tokens != 0 {
		e.taken += t.Tokens
		e.last = now
	}
	took.Left = e.bucket.Level(now)
	return took
}

// undo gives back what the rows of takes took.
func (a *Aggregator) undo(now time.Duration, takes *rpc.Takes) {
	for i := range takes.Rows {
		row := &takes.Rows[i]
		if row.Tokens > 0 {
			back := rpc.Take{Key: row.Key, Tokens: -row.Tokens}
			a.take(now, &back)
		} else if row.Tokens < 0 {
			again := rpc.Take{Key: row.Key, Tokens: -row.Tokens, Spent: rpc.SpentBeyond}
			a.take(now, &again)
		}
	}
}

// HandoverBuckets stops deciding, and returns what is left at now in the
// buckets of a, as takes of nothing: for the owners that take over. A full
// bucket needs none.
func (a *Aggregator) HandoverBuckets(now time.Duration) []rpc.Take {
	a.left.Store(true)
	return a.Buckets(now, func(string) bool { return true })
}

// Buckets returns what is left at now in the buckets of the keys that moved
// holds for, as HandoverBuckets does. They go on deciding, for callers that have
// not heard yet who owns the key now.
func (a *Aggregator) Buckets(now time.Duration, moved func(key string) bool) (rows []rpc.Take) {
	for i := range a.shards {
		sh := &a.shards[i]
		for _, entry := range sh.entries() {
			if entry.algorithm != algorithm.NameExact || !moved(entry.key.text) {
				continue
			}
			if row, ok := a.handBucket(now, sh, entry.key); ok {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

func (a *Aggregator) handBucket(now time.Duration, sh *shard, k *key) (row rpc.Take, ok bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()

	e, ok := k.state.(*exact)
	if !ok || k.rule == nil || e.bucket.Full(now) {
		return row, false
	}
	return rpc.Take{Key: k.text, Told: e.bucket.Level(now), By: a.number}, true
}
