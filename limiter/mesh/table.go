// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/meshusage"
)

// shard is some of the keys. Its lock is taken while an entry's is held, and
// never the other way round.
type shard struct {
	mu      sync.RWMutex // protects following fields
	entries map[string]*entry
	changed []*entry // to send when the round ends
}

// table is the keys that have a bucket, and when this host used them. It is safe
// for concurrent use.
type table struct {
	seed   maphash.Seed
	shards [shards]shard
	keys   atomic.Int64
	most   int64         // keys
	round  atomic.Uint64 // under way; the first is 1
	starts atomic.Int64  // processes that started later than this one, and that it heard of
	latest atomic.Int64  // the Instant of the latest config; a process that starts does not know how old its first one is
	pauses
}

const shards = 64

// entry is one key.
type entry struct {
	key string

	mu      sync.Mutex // protects following fields
	removed bool       // no longer in its shard
	rule    *dynamicconfig.Rule
	bucket  exactbucket.Bucket
	touched stage.Instant
	own     count   // what this host used
	ended   count   // the last state of the count before own
	changed uint64  // the round in which own last changed
	marked  bool    // in the shard's changed
	sent    float64 // own.used as of the last round that sent it
	sentIn  uint64  // that round
	others  []received
	back    back
}

// count is what a host used of a key since it began to count.
type count struct {
	born uint64 // the round in which the count began; 0: not yet
	used float64
}

// received is the latest count from one process, and what it cost the bucket.
type received struct {
	of *sender
	count
	known float64 // what the process knew, at least, of own.used

	charged, uncharged float64 // see settle

	alone alone
}

func (t *table) shard(key string) *shard { return &t.shards[maphash.String(t.seed, key)%shards] }

// find returns the entry of key; nil if there is none.
func (t *table) find(key string) *entry {
	s := t.shard(key)
	s.mu.RLock()
	defer s.mu.RUnlock()

	return s.entries[key]
}

// entry returns the entry of key, locked, under rule. It adds one if there is
// none.
func (t *table) entry(now stage.Instant, key string, rule *dynamicconfig.Rule) (*entry, *shard, error) {
	s := t.shard(key)
	for {
		s.mu.RLock()
		e := s.entries[key]
		s.mu.RUnlock()
		if e == nil {
			if e = t.add(now, s, key, rule); e == nil {
				return nil, nil, ErrTooManyKeys
			}
		}
		e.mu.Lock()
		if e.removed {
			e.mu.Unlock()
			continue
		}
		e.follow(now, t.pauses.since(now), rule)
		return e, s, nil
	}
}

// follow puts e under rule. Until now, its bucket filled by the rule before. Others may have had the rule since this
// process was paused, which began at since. The caller holds e.mu.
func (e *entry) follow(now, since stage.Instant, rule *dynamicconfig.Rule) {
	if e.rule != rule {
		if bucketRule(e.rule) != bucketRule(rule) {
			e.back.starts--
			e.back.raise(now, since, e.bucket.Rate(), float64(rule.Limit))
		}
		e.rule = rule
		e.bucket.Follow(time.Duration(now), bucketRule(rule))
	}
}

// add returns the entry of key, or adds one with a bucket that is full since the
// last round ended. It returns nil if there are too many keys.
func (t *table) add(now stage.Instant, s *shard, key string, rule *dynamicconfig.Rule) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()

	if e := s.entries[key]; e != nil {
		return e
	}
	if t.keys.Add(1) > t.most {
		t.keys.Add(-1)
		return nil
	}
	key = strings.Clone(key) // it may be part of a message
	e := &entry{key: key, rule: rule, touched: now, back: back{starts: t.starts.Load() - t.news(now)}, bucket: exactbucket.New(time.Duration(t.pauses.since(now)), bucketRule(rule))}
	s.entries[key] = e
	return e
}

// news is 1 if a key that is new at now may be one that other hosts have under another algorithm still: then they
// forget what this one used. Otherwise it is 0.
func (t *table) news(now stage.Instant) int64 {
	if at := stage.Instant(t.latest.Load()); at != math.MinInt64 && now.Sub(at) <= t.pauses.most() {
		return 1
	}
	return 0
}

// bucketRule is rule without max_wait, which is in each Operation's Longest.
func bucketRule(rule *dynamicconfig.Rule) exactbucket.Rule {
	return exactbucket.Rule{Rate: float64(rule.Limit), Burst: rule.Burst, MaxDebt: rule.MaxDebt, MaxCost: rule.MaxCost}
}

// fill makes the bucket full. What hosts used stays counted. The caller holds e.mu.
func (e *entry) fill(now stage.Instant) {
	at := time.Duration(now)
	e.bucket.Give(at, e.bucket.Burst()-e.bucket.Level(at))
	e.notAlone()
}

// use adds n to what this host used of e, which is in s. The caller holds e.mu.
func (t *table) use(s *shard, e *entry, n float64) {
	if e.marked {
		e.changed = t.round.Load()
	} else {
		e.marked, e.changed = true, s.mark(e, &t.round)
	}
	if e.own.born == 0 {
		e.own.born = e.changed
	}
	e.own.used = min(max(e.own.used+n, 0), exactbucket.MaxTokens)
}

// mark has e sent when the round under way ends, and returns that round. It
// reads the round under the lock with which RoundAt collects what changed.
// Otherwise RoundAt could collect in between, and e would be sent a round later
// than others take it to be.
func (s *shard) mark(e *entry, round *atomic.Uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.changed = append(s.changed, e)
	return round.Load()
}

// changed returns the keys that this host used in the round that ended.
func (t *table) changed(now stage.Instant, round uint64) (rows []meshusage.Used) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		entries := s.changed
		s.changed = nil
		s.mu.Unlock()
		for _, e := range entries {
			e.mu.Lock()
			if e.own.born > round {
				s.mark(e, &t.round) // it belongs to the next round
			} else {
				e.marked, e.sent, e.sentIn = false, e.own.used, round
				rows = append(rows, e.row(now, e.own, 0))
				e.renew(round)
			}
			e.mu.Unlock()
		}
	}
	return rows
}

// renewAt is how much is used before a count begins anew: so little that no
// round takes it to rpc.MaxTokens.
const renewAt = 1 << 50

// renew begins a new count in the next round, if own is too large. Hosts that
// did not receive this round are sent the last state of the old count first. A
// host that receives nothing until yet another count has begun misses a part.
func (e *entry) renew(round uint64) {
	if e.own.used < renewAt {
		return
	}
	for i := range e.others {
		e.others[i].known -= e.own.used
	}
	e.sent = 0
	e.ended, e.own = e.own, count{born: round + 1}
}

// since returns the keys that this host used after a round that was acked, up
// to round. First come the counts that ended meanwhile.
func (t *table) since(now stage.Instant, acked, round uint64) (ended, rows []meshusage.Used) {
	for i := range t.shards {
		for _, e := range t.shards[i].all() {
			e.mu.Lock()
			if e.ended.born > 0 && e.own.born > acked+1 {
				ended = append(ended, e.row(now, e.ended, e.own.used))
			}
			if e.changed > acked && e.own.born <= round {
				rows = append(rows, e.row(now, e.own, 0))
			}
			e.mu.Unlock()
		}
	}
	return ended, rows
}

func (s *shard) all() []*entry {
	s.mu.RLock()
	defer s.mu.RUnlock()

	return slices.Collect(maps.Values(s.entries))
}

// row says c, and that what is left does not include the later use.
func (e *entry) row(now stage.Instant, c count, later float64) meshusage.Used {
	return meshusage.Used{Key: e.key, Born: c.born, Tokens: uint64(c.used), Left: e.bucket.Level(time.Duration(now)) + later}
}

// from returns what came from s last. If nothing did, it is empty, and takes the
// place of a process that is gone, such as the one before s.
func (e *entry) from(s *sender) *received {
	i := slices.IndexFunc(e.others, func(r received) bool { return r.of == s })
	if i >= 0 {
		return &e.others[i]
	}
	if i = slices.IndexFunc(e.others, func(r received) bool { return r.of.gone.Load() }); i < 0 {
		i = len(e.others)
		e.others = append(e.others, received{})
	}
	e.others[i] = received{alone: noDebt}
	return &e.others[i]
}

// settle charges e's bucket when a count grows by n, and gives back when it
// shrinks. A charge ends at a debt of what all hosts may use from full buckets,
// and in some intervals without messages: that is the floor. A deeper debt would
// close the key for as long as the messages were missing. lost is what was not
// charged.
//
// A count shrinks by what was added last. So the tokens charged since the debt
// was last too deep come back first. Then come the uncharged ones, for which
// nothing is given back.
func (e *entry) settle(at time.Duration, r *received, n, floor float64) (lost float64) {
	if n < 0 {
		charged := min(-n, r.charged)
		uncharged := min(-n-charged, r.uncharged)
		r.charged -= charged
		r.uncharged -= uncharged
		e.bucket.Give(at, -n-uncharged)
		return 0
	}
	took := e.bucket.Charge(at, n, floor)
	r.charged += took
	if took < n {
		r.charged = 0
		r.uncharged += n - took
	}
	return n - took
}

// shortestIdle is the shortest time for which a key is idle before it is
// dropped. Other hosts need some of it to receive the last use.
const shortestIdle = 30 * time.Second

// dropIdle drops the keys that are full and idle.
func (t *table) dropIdle(now stage.Instant) {
	for i := range t.shards {
		for _, e := range t.shards[i].all() {
			t.drop(now, &t.shards[i], e)
		}
	}
}

// drop removes e if nothing is lost.
func (t *table) drop(now stage.Instant, s *shard, e *entry) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.others = slices.DeleteFunc(e.others, func(r received) bool { return r.of.gone.Load() })
	idle := max(e.rule.IdleAfter, shortestIdle)
	if e.marked || now.Sub(e.touched) < idle || !e.bucket.Full(time.Duration(now)) {
		return
	}
	e.removed = true
	s.mu.Lock()
	defer s.mu.Unlock()

	delete(s.entries, e.key)
	t.keys.Add(-1)
}
