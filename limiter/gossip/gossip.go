// SPDX-License-Identifier: Apache-2.0

package gossip

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/rpc"
)

// Name is the algorithm that rules give.
const Name = "gossip"

// Rules tell which rule matches a key, as a Snapshot's Match does.
type Rules func(key string) (*dynamicconfig.Rule, bool)

// Config bounds a Mesh. The zero Config has all defaults.
type Config struct {
	// MaxKeys is how many keys there may be, with those that only others use;
	// default DefaultMaxKeys. What others use of more is not counted, and
	// this host's own use of more falls back.
	MaxKeys int

	// Interval is how often hosts tell each other; default DefaultInterval.
	// Less is more exact, and more messages.
	Interval time.Duration
}

// Defaults of Config.
const (
	DefaultMaxKeys  = 1 << 20
	DefaultInterval = 500 * time.Millisecond
)

// ErrTooManyKeys is that there are MaxKeys already.
var ErrTooManyKeys = errors.New("gossip: too many keys")

// Mesh is one host's buckets, what it hears, and what it has to tell. Use New.
// Safe for concurrent use.
//
// Everything takes the time as an argument, but Take, Update and Run.
type Mesh struct {
	self    string
	id      uint64 // of this process
	rules   Rules
	config  Config
	log     *slog.Logger
	metrics metrics

	seed    maphash.Seed
	parts   [parts]part
	keys    atomic.Int64
	version atomic.Uint64 // the round that is under way
	crowd   atomic.Int64  // hosts, with this one
	spoke   atomic.Int64  // the Instant of the last round
	woken   atomic.Int64  // the Instant of the last that came late

	mu      sync.Mutex // protects following fields
	peers   map[string]*peer
	senders map[string]*sender
	swept   limiter.Instant
}

var (
	_ limiter.Remote = (*Mesh)(nil)
	_ rpc.Decider    = (*Mesh)(nil)
)

const parts = 64

// part is some of the keys.
type part struct {
	mu      sync.RWMutex // protects following fields
	entries map[string]*entry
	changed []*entry // since the last round
}

// entry is one key.
type entry struct {
	mu      sync.Mutex // protects following fields
	key     string
	gone    bool // no longer in its part
	rule    *dynamicconfig.Rule
	bucket  bucket
	born    uint64 // the round in which this host first used it
	used    float64
	changed uint64 // the round in which used last changed; 0: never
	told    bool   // it is among the part's changed
	touched limiter.Instant
	heard   []heard
}

// heard is what one host told of a key last.
type heard struct {
	of   *sender
	born uint64
	used float64
	mine float64 // what this host had used then
}

// Option is a collaborator of a Mesh.
type Option func(*Mesh)

// WithLogger sets the logger; default nowhere.
func WithLogger(log *slog.Logger) Option { return func(m *Mesh) { m.log = log } }

// WithScope sets where metrics go; default nowhere.
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
	for i := range m.parts {
		m.parts[i].entries = make(map[string]*entry)
	}
	m.version.Store(1)
	m.spoke.Store(math.MinInt64)
	m.woken.Store(math.MinInt64)
	m.crowd.Store(1)
	for _, o := range options {
		o(m)
	}
	return m
}

// Take implements limiter.Remote. It never waits, and only fails when there
// are too many keys.
func (m *Mesh) Take(_ context.Context, t limiter.Take) (limiter.Taken, error) {
	return m.TakeAt(limiter.Now(), t)
}

// TakeAt is Take at now.
func (m *Mesh) TakeAt(now limiter.Instant, t limiter.Take) (limiter.Taken, error) {
	e, p, err := m.entry(now, t.Key, t.Rule)
	if err != nil {
		return limiter.Taken{}, err
	}
	defer e.mu.Unlock()

	e.touched = now
	n, taken := t.N, limiter.Taken{OK: true}
	switch {
	case n < 0 || t.Charge:
		n = e.bucket.add(now, n, -maxTokens)
	default:
		debt := within(e.bucket.rate*max(t.Rule.MaxDebt, 0).Seconds(), maxTokens)
		taken.Wait, taken.RetryAfter, taken.OK = e.bucket.take(now, n, debt, t.Longest)
	}
	taken.Left = e.bucket.level(now)
	if taken.OK && n != 0 {
		version := m.version.Load()
		if e.changed == 0 {
			e.born = version
		}
		e.changed, e.used = version, min(max(e.used+n, 0), maxTokens)
		if !e.told {
			e.told = true
			p.note(e)
		}
	}
	return taken, nil
}

func (m *Mesh) part(key string) *part { return &m.parts[maphash.String(m.seed, key)%parts] }

// entry returns the entry of key, locked, under rule. It makes a new one if
// there is none.
func (m *Mesh) entry(now limiter.Instant, key string, rule *dynamicconfig.Rule) (*entry, *part, error) {
	p := m.part(key)
	for {
		p.mu.RLock()
		e := p.entries[key]
		p.mu.RUnlock()
		if e == nil {
			var err error
			if e, err = m.add(now, p, key, rule); err != nil {
				return nil, nil, err
			}
		}
		e.mu.Lock()
		if e.gone {
			e.mu.Unlock()
			continue
		}
		if e.rule != rule {
			e.rule = rule
			e.bucket.rule(now, rule)
		}
		return e, p, nil
	}
}

// add makes the entry of key if there is none.
func (m *Mesh) add(now limiter.Instant, p *part, key string, rule *dynamicconfig.Rule) (*entry, error) {
	p.mu.Lock()
	defer p.mu.Unlock()

	if e := p.entries[key]; e != nil {
		return e, nil
	}
	if m.keys.Add(1) > int64(m.config.MaxKeys) {
		m.keys.Add(-1)
		m.metrics.refused.Inc(1)
		return nil, fmt.Errorf("%w: there are %d", ErrTooManyKeys, m.config.MaxKeys)
	}
	key = strings.Clone(key) // it may be a piece of a message
	e := &entry{key: key, rule: rule, touched: now}
	e.bucket.since = now
	e.bucket.rule(now, rule)
	e.bucket.fill(now)
	p.entries[key] = e
	return e, nil
}

// note has e told in the next round. The part's lock is short, and taken
// inside an entry's; nobody takes an entry's lock while holding it.
func (p *part) note(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()

	p.changed = append(p.changed, e)
}
