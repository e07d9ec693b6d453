// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"context"
	"hash/maphash"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// Name is the algorithm that rules give.
const Name = "gossip"

// Rules returns the rule that matches a key, as a Snapshot's Match does.
type Rules func(key string) (*dynamicconfig.Rule, bool)

// Config bounds a Mesh. The zero Config has all defaults.
type Config struct {
	// MaxKeys is how many keys may have a bucket, with those that only other
	// hosts use; default DefaultMaxKeys. Above it, what other hosts use is not
	// counted, and Do returns ErrTooManyKeys.
	MaxKeys int

	// Interval is the length of a round; default DefaultInterval. A shorter
	// one is more exact and sends more messages.
	Interval time.Duration
}

// Defaults of Config.
const (
	DefaultMaxKeys  = 1 << 20
	DefaultInterval = 500 * time.Millisecond
)

// ErrTooManyKeys means that MaxKeys keys have a bucket already. errors.Is takes
// it for a stage.ErrBusy.
var ErrTooManyKeys error = tooManyKeys{}

type tooManyKeys struct{}

// Error implements error.
func (tooManyKeys) Error() string { return "mesh: too many keys have a bucket" }

// Is reports that the error says nothing about the health of a Remote.
func (tooManyKeys) Is(target error) bool { return target == stage.ErrBusy }

// Mesh is the buckets of one host, what it received from other hosts, and what
// it has to send. Use New. Safe for concurrent use.
//
// All methods take the time as an argument, except Do, Update, Run and Leave.
type Mesh struct {
	self    string
	id      uint64 // of this process
	rules   Rules
	config  Config
	log     *slog.Logger
	metrics metrics

	seed    maphash.Seed
	shards  [shards]shard
	keys    atomic.Int64
	round   atomic.Uint64 // under way; the first is 1
	hosts   atomic.Int64  // with this one
	ended   atomic.Int64  // the Instant at which the last round ended
	resumed atomic.Int64  // the Instant at which a round last ended late

	mu      sync.Mutex // protects following fields
	peers   map[string]*peer
	senders map[string]*sender
	swept   stage.Instant
}

var (
	_ stage.Remote = (*Mesh)(nil)
	_ rpc.Decider  = (*Mesh)(nil)
)

const shards = 64

// shard is some of the keys. Its lock is taken while an entry's is held, and
// never the other way round.
type shard struct {
	mu      sync.RWMutex // protects following fields
	entries map[string]*entry
	changed []*entry // to send when the round ends
}

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
}

// Option is a collaborator of a Mesh.
type Option func(*Mesh)

// WithLogger sets the logger; default none.
func WithLogger(log *slog.Logger) Option { return func(m *Mesh) { m.log = log } }

// WithScope sets the scope of the metrics; default none.
func WithScope(scope tally.Scope) Option { return func(m *Mesh) { m.metrics = newMetrics(scope) } }

// New returns the Mesh of the host that others know as self.
func New(self string, rules Rules, config Config, options ...Option) *Mesh {
	if config.MaxKeys <= 0 {
		config.MaxKeys = DefaultMaxKeys
	}
	if config.Interval <= 0 {
		config.Interval = DefaultInterval
	}
	m := &Mesh{
		self: self, id: rand.Uint64() | 1, rules: rules, config: config,
		log: slog.New(slog.DiscardHandler), metrics: newMetrics(tally.NoopScope),
		seed: maphash.MakeSeed(), peers: make(map[string]*peer), senders: make(map[string]*sender),
	}
	for i := range m.shards {
		m.shards[i].entries = make(map[string]*entry)
	}
	m.round.Store(1)
	m.ended.Store(math.MinInt64)
	m.resumed.Store(math.MinInt64)
	m.hosts.Store(1)
	for _, o := range options {
		o(m)
	}
	return m
}

// Do implements stage.Remote. It never waits. The only error is ErrTooManyKeys;
// op was not carried out then, so Do needs no ID.
func (m *Mesh) Do(_ context.Context, op stage.Operation) (stage.Outcome, error) {
	return m.DoAt(stage.Now(), op)
}

// DoAt is Do at now.
func (m *Mesh) DoAt(now stage.Instant, op stage.Operation) (stage.Outcome, error) {
	e, s, err := m.entry(now, op.Key, op.Rule)
	if err != nil {
		return stage.Outcome{}, err
	}
	defer e.mu.Unlock()

	e.touched = now
	at, used, o := time.Duration(now), op.N, stage.Outcome{OK: true}
	switch op.Kind {
	case stage.ChargeTokens:
		used = e.bucket.Charge(at, op.N, math.Inf(-1))
	case stage.ReturnTokens:
		e.bucket.Give(at, op.N)
		used = -op.N
	default:
		v := e.bucket.Take(at, op.N, max(op.Longest, 0))
		o.OK, o.Wait = v.OK, v.Wait
		if !v.OK && v.Retry != exactbucket.Never {
			o.RetryAfter = v.Retry
		}
	}
	if o.OK && used != 0 {
		m.use(s, e, used)
	}
	o.Left = e.bucket.Level(at)
	return o, nil
}

// use adds n to what this host used. The caller holds e.mu.
func (m *Mesh) use(s *shard, e *entry, n float64) {
	if e.marked {
		e.changed = m.round.Load()
	} else {
		e.marked, e.changed = true, s.mark(e, &m.round)
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

func (m *Mesh) shard(key string) *shard { return &m.shards[maphash.String(m.seed, key)%shards] }

// entry returns the entry of key, locked, under rule. It adds one if there is
// none.
func (m *Mesh) entry(now stage.Instant, key string, rule *dynamicconfig.Rule) (*entry, *shard, error) {
	s := m.shard(key)
	for {
		s.mu.RLock()
		e := s.entries[key]
		s.mu.RUnlock()
		if e == nil {
			if e = m.add(now, s, key, rule); e == nil {
				return nil, nil, ErrTooManyKeys
			}
		}
		e.mu.Lock()
		if e.removed {
			e.mu.Unlock()
			continue
		}
		if e.rule != rule {
			e.rule = rule
			e.bucket.Rule(time.Duration(now), bucketRule(rule))
		}
		return e, s, nil
	}
}

// add returns the entry of key, or adds one with a full bucket. It returns nil
// if there are too many keys.
func (m *Mesh) add(now stage.Instant, s *shard, key string, rule *dynamicconfig.Rule) *entry {
	s.mu.Lock()
	defer s.mu.Unlock()

	if e := s.entries[key]; e != nil {
		return e
	}
	if m.keys.Add(1) > int64(m.config.MaxKeys) {
		m.keys.Add(-1)
		m.metrics.refused.Inc(1)
		return nil
	}
	key = strings.Clone(key) // it may be part of a message
	e := &entry{key: key, rule: rule, touched: now, bucket: exactbucket.New(time.Duration(now), bucketRule(rule))}
	s.entries[key] = e
	return e
}

// bucketRule is rule without max_wait, which is in each Operation's Longest.
func bucketRule(rule *dynamicconfig.Rule) exactbucket.Rule {
	return exactbucket.Rule{Rate: float64(rule.Limit), Burst: rule.Burst, MaxDebt: rule.MaxDebt, MaxCost: rule.MaxCost}
}
