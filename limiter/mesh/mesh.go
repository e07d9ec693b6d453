// SPDX-License-Identifier: Apache-2.0

package mesh

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/exactbucket"
	"github.com/headgate/headgate/internal/scopes"
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
	// one is more exact and sends more messages. SetInterval changes it.
	Interval time.Duration
}

// Defaults of Config.
const (
	DefaultMaxKeys  = 1 << 20
	DefaultInterval = 500 * time.Millisecond
)

// ErrTooManyKeys means that MaxKeys keys have a bucket already. errors.Is takes
// it for a stage.ErrBusy.
var ErrTooManyKeys error = stage.Busy("mesh: too many keys have a bucket")

// Mesh is the buckets of one host, what it received from other hosts, and what
// it has to send. Use New. Safe for concurrent use.
//
// All methods take the time as an argument, except Do, Update, Run and Leave.
type Mesh struct {
	id      uint64 // of this process
	rules   Rules
	log     *slog.Logger
	metrics metrics

	table
	members
}

var (
	_ stage.Remote = (*Mesh)(nil)
	_ rpc.Decider  = (*Mesh)(nil)
)

// Option is a collaborator of a Mesh.
type Option func(*Mesh)

// WithLogger sets the logger; default none.
func WithLogger(log *slog.Logger) Option {
	return func(m *Mesh) {
		if log != nil {
			m.log = log
		}
	}
}

// WithScope sets the scope of the metrics; default none.
func WithScope(scope tally.Scope) Option {
	return func(m *Mesh) {
		m.metrics = newMetrics(scopes.Guard(scope, slog.Default()))
	}
}

// New returns the Mesh of the host that others know as self. rules may not be nil.
func New(self string, rules Rules, config Config, options ...Option) *Mesh {
	m := &Mesh{
		id: rand.Uint64() | 1, rules: rules,
		log: slog.New(slog.DiscardHandler), metrics: newMetrics(tally.NoopScope),
		table:   table{seed: maphash.MakeSeed(), most: int64(cmp.Or(max(config.MaxKeys, 0), DefaultMaxKeys))},
		members: members{self: self, senders: make(map[string]*sender)},
	}
	m.SetInterval(config.Interval)
	for i := range m.shards {
		m.shards[i].entries = make(map[string]*entry)
	}
	m.round.Store(1)
	m.rounds = &m.round
	m.hosts.Store(1)
	m.ended.Store(math.MinInt64)
	m.resumed.Store(math.MinInt64)
	m.latest.Store(math.MinInt64)
	for _, o := range options {
		if o != nil {
			o(m)
		}
	}
	return m
}

// StartAt says that the process runs since now, and has its first config since then. Run calls it.
func (m *Mesh) StartAt(now stage.Instant) {
	m.start(now)
	m.latest.CompareAndSwap(math.MinInt64, int64(now))
}

// SetInterval changes the length of rounds from the next one on; 0 or less is
// DefaultInterval.
func (m *Mesh) SetInterval(d time.Duration) {
	m.interval.Store(int64(cmp.Or(max(d, 0), DefaultInterval)))
}

// Configure has each bucket fill from now on as the rule says that its key has by now, of whichever
// algorithm. Without it, a bucket would fill by the rule of its latest event until its next one.
func (m *Mesh) Configure(now stage.Instant) {
	m.latest.Store(int64(now))
	for i := range m.shards {
		for _, e := range m.shards[i].all() {
			if rule, ok := m.rules(e.key); ok && !rule.InFlight {
				e.mu.Lock()
				e.follow(now, m.pauses.since(now), rule)
				e.mu.Unlock()
			}
		}
	}
}

// Refill makes this host's bucket of key full, if there is one. Hosts that know the key
// by messages only have one too.
func (m *Mesh) Refill(key string) {
	now, e := stage.Now(), m.find(key)
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()

	e.fill(now)
}

// Level is how many tokens this host's bucket of key has at now, negative in debt; false if there
// is none.
func (m *Mesh) Level(now stage.Instant, key string) (tokens float64, ok bool) {
	e := m.find(key)
	if e == nil {
		return 0, false
	}
	e.mu.Lock()
	defer e.mu.Unlock()

	return e.bucket.Level(time.Duration(now)), true
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
		m.metrics.refused.Inc(1)
		return stage.Outcome{}, err
	}
	defer e.mu.Unlock()

	e.touched = now
	at, used, o := time.Duration(now), op.N, stage.Outcome{OK: true}
	switch op.Kind {
	case stage.ChargeTokens:
		used = e.bucket.Charge(at, op.N, -op.Rule.MostDebt())
	case stage.ReturnTokens:
		e.bucket.Give(at, op.N)
		used = -op.N
	case stage.FillTokens: // others fill theirs
		used = 0
		e.fill(now)
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
