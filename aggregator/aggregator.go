// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
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

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Aggregator decides for the keys that its host owns. It is safe for
// concurrent use. No report waits for longer than one key takes, or a look
// over a part of the keys' names.
type Aggregator struct {
	log      *slog.Logger
	metrics  metrics
	registry *algorithm.Registry

	configure sync.Mutex // serialises Configure
	settings  atomic.Pointer[settings]
	moved     atomic.Int64 // when keys last moved between owners, by Step's time
	children  children
	hosts     hosts
	labels    atomic.Pointer[map[string]algorithm.Labels] // by host; nil before the first Label
	gone      func(host uint32)                           // forget; made once, as it costs an allocation
	keys      atomic.Int64
	blamed    pacer // by Step's time
	refusals  pacer
	number    uint32      // at random: who told callers what is left
	left      atomic.Bool // buckets were handed over, and do not decide any more
	callers   callers
	seed      maphash.Seed
	shards    [shards]shard
}

const (
	shardBits = 6
	shards    = 1 << shardBits
)

// shard is a part of the keys, so that reports rarely wait for each other.
type shard struct {
	mu    sync.Mutex    // protects following fields, and all in the books
	now   time.Duration // the latest time of all that had the lock
	books []*book       // a book per algorithm; they stay for ever

	_ [24]byte // a shard per cache line
}

// lock locks sh for what happens at now. It returns now, or the time of what had
// the lock before if that is later: for a key, time does not go backwards.
func (sh *shard) lock(now time.Duration) time.Duration {
	sh.mu.Lock()
	sh.now = max(sh.now, now)
	return sh.now
}

// settings is a Snapshot, worked out.
type settings struct {
	number   int // later ones have higher
	registry *algorithm.Registry
	built    sync.Map // algorithms with parameters
	snapshot *dynamicconfig.Snapshot
	average  algorithm.Average
	shortest time.Duration // period of a report; a shorter one counts as that
	stages   []algorithm.Stage
	cluster  algorithm.Cluster
	maxKeys  int64
	maxHosts int
	places   places
}

// Option is a collaborator of an Aggregator.
type Option func(*Aggregator)

// WithLogger sets the logger; the default discards.
func WithLogger(log *slog.Logger) Option { return func(a *Aggregator) { a.log = log } }

// WithScope sets where metrics go; the default is nowhere.
func WithScope(scope tally.Scope) Option {
	return func(a *Aggregator) { a.metrics = newMetrics(scope) }
}

// New returns an Aggregator that decides with the algorithms in registry
// under the rules and properties of snapshot. It returns all that is wrong
// with the properties.
func New(registry *algorithm.Registry, snapshot *dynamicconfig.Snapshot, options ...Option) (*Aggregator, error) {
	a := &Aggregator{
		log:      slog.New(slog.DiscardHandler),
		metrics:  newMetrics(tally.NoopScope),
		registry: registry,
		seed:     maphash.MakeSeed(),
		number:   rand.Uint32() | 1,
	}
	for _, o := range options {
		o(a)
	}
	a.gone = a.forget
	for i := range a.shards {
		a.shards[i].now = math.MinInt64
	}
	if err := a.Configure(snapshot); err != nil {
		return nil, err
	}
	return a, nil
}

// Configure puts the rules and properties of snapshot in force. What is known
// of keys and hosts stays. On an error nothing changes.
func (a *Aggregator) Configure(snapshot *dynamicconfig.Snapshot) error {
	p := snapshot.Properties()
	s := &settings{
		registry: a.registry,
		snapshot: snapshot,
		average: algorithm.Average{
			Weight:     p.NewDataWeight,
			Interval:   p.UpdateInterval,
			DecayAfter: p.DecayAfter,
			GCAfter:    p.GCAfter,
		},
		maxKeys:  int64(p.MaxKeys),
		maxHosts: p.MaxHostsPerKey,
	}
	if err := s.average.Validate(); err != nil {
		return fmt.Errorf("aggregator: configure: %w", err)
	}
	s.stages = s.average.Stages()
	s.shortest = min(time.Second, p.UpdateInterval)
	s.cluster = algorithm.Cluster{Interval: p.UpdateInterval, Member: a.member}
	a.configure.Lock()
	defer a.configure.Unlock()

	var before places
	if old := a.settings.Load(); old != nil {
		s.number, before = old.number+1, old.places
	}
	s.places = newPlaces(snapshot, before)
	a.settings.Store(s)
	return nil
}

// Step takes in what host used, at now, and fills grants in the order of
// usage. A key that cannot be decided (no rule, no room, an algorithm that
// fails) gets no grant, and costs the others nothing. Usage that makes no
// sense is refused whole, with an error. Time is counted from any fixed point
// and does not go backwards.
func (a *Aggregator) Step(now time.Duration, host string, report *usage.Report, grants *usage.Grants) error {
	if err := check(host, report); err != nil {
		a.metrics.refused.Inc(1)
		return fmt.Errorf("aggregator: update from %q: %w", host, err)
	}
	return a.step(now, host, report, grants)
}

// step is Step for a report that is checked.
func (a *Aggregator) step(now time.Duration, host string, report *usage.Report, grants *usage.Grants) error {
	alg, err := a.registry.Lookup(report.Algorithm)
	var floor usage.Floor
	if err == nil {
		floor, err = floorOf(alg)
	}
	if err != nil {
		a.metrics.refused.Inc(1)
		return fmt.Errorf("aggregator: update from %q: %w", host, err)
	}
	_, stateful := alg.(algorithm.Stateful)
	resize(grants, report.Len(), stateful)
	grants.Floor = floor
	s := a.settings.Load()
	id := a.hosts.acquire(host)
	defer a.hosts.add(id, -1)

	u := newUpdate()
	defer u.done()

	u.a, u.now, u.settings, u.sharing = a, now, s, newSharing(alg)
	u.usage, u.host, u.grants = report, id, grants
	u.all()
	a.metrics.updates.Inc(1)
	a.metrics.updatedKeys.Inc(int64(report.Len()))
	return nil
}

// newKey makes room for a key and puts it into b, whose shard is locked; nil if
// there is no room, or no rule.
func (a *Aggregator) newKey(b *book, s *settings, alg algorithm.Algorithm, hash uint64, text string, now time.Duration) (*key, error) {
	rule, _ := s.match(text, b.algorithm)
	if rule == nil {
		a.metrics.noRoom.Inc(1)
		return nil, nil
	}
	k := &key{settings: s, rule: rule}
	moved := time.Duration(a.moved.Load())
	switch alg := alg.(type) {
	case algorithm.Leasing:
		l := newLessor(k, alg, moved+max(rule.Learning, 0))
		l.adopt(s, nil)
		k.state = l
	case algorithm.Stateful:
		if k.state = stateOf(alg, now, s.cluster); k.state == nil {
			a.metrics.noRoom.Inc(1)
			return nil, errNoKey
		}
	default:
		k.ledger = newLedger()
		k.learns = moved + min(max(rule.Learning, 0), s.average.Interval)
	}
	if a.keys.Add(1) > s.maxKeys {
		a.keys.Add(-1)
		a.metrics.noRoom.Inc(1)
		return nil, nil
	}
	k.text = strings.Clone(text)
	b.add(hash, k)
	a.raise(now, &a.shards[shardOf(hash)], k)
	return k, nil
}

// Label puts the labels of hosts in force: what membership says about each, by its
// name. Weighings see them; no report can change them.
func (a *Aggregator) Label(labels map[string]algorithm.Labels) { a.labels.Store(&labels) }

// member is who host is.
func (a *Aggregator) member(host uint32) algorithm.Member {
	m := algorithm.Member{Name: a.hosts.name(host)}
	if labels := a.labels.Load(); labels != nil {
		m.Labels = (*labels)[m.Name]
	}
	return m
}

// Moved tells that keys may have moved between owners at now: keys that are new
// here from now on may have leases out that this owner does not know of.
func (a *Aggregator) Moved(now time.Duration) { a.moved.Store(int64(now)) }

// match is the rule for the key called text if it has the algorithm called named
// decide or measured. If not, it is nil, and instead is the rule that there is.
func (s *settings) match(text, named string) (rule, instead *dynamicconfig.Rule) {
	rule, _ = s.snapshot.Match(text)
	if rule == nil || mentions(rule, named) {
		return rule, nil
	}
	return nil, rule
}

// algorithm is the one called name, with the rule's parameters; an error if they
// cannot be used.
func (s *settings) algorithm(rule *dynamicconfig.Rule, name string) (algorithm.Algorithm, error) {
	if len(parameters(rule)) == 0 {
		return s.registry.Lookup(name)
	}
	type ruled struct {
		rule *dynamicconfig.Rule
		name string
	}
	type built struct {
		algorithm algorithm.Algorithm
		err       error
	}
	if b, ok := s.built.Load(ruled{rule, name}); ok {
		if b, ok := b.(built); ok {
			return b.algorithm, b.err
		}
	}
	b := built{}
	b.algorithm, b.err = s.registry.Build(name, rule.Parameters)
	s.built.Store(ruled{rule, name}, b)
	return b.algorithm, b.err
}

func (a *Aggregator) hash(key string) uint64 { return maphash.String(a.seed, key) }

// check refuses what no sane host sends. Transports check too; anyone may
// write a transport.
func check(host string, u *usage.Report) error {
	if err := rpc.CheckHost(host); err != nil {
		return err
	}
	return u.Check()
}

// floorOf is what alg lets hosts take above their weight.
func floorOf(alg algorithm.Algorithm) (floor usage.Floor, err error) {
	defer recovered(&err)
	if f, ok := alg.(algorithm.Floored); ok {
		floor = usage.Floor(f.Floor())
	}
	if floor > usage.FloorDrop {
		return 0, fmt.Errorf("the algorithm's Floor is %d; return one of algorithm's Floor constants", floor)
	}
	return floor, nil
}

// resize makes n rows of g, with tokens or without.
func resize(g *usage.Grants, n int, tokens bool) {
	grow := func(column []float64) []float64 {
		if cap(column) >= n {
			return column[:n]
		}
		return make([]float64, n)
	}
	g.Weight, g.Burst, g.Used = grow(g.Weight), grow(g.Burst), grow(g.Used)
	if tokens {
		g.Tokens = grow(g.Tokens)
	} else {
		g.Tokens = nil
	}
	if cap(g.Lease) < n {
		g.Lease = make([]time.Duration, n)
	}
	g.Lease = g.Lease[:n]
}
