// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

// Aggregator decides for the keys that its host owns. It is safe for
// concurrent use. No lock is held for longer than one key takes.
type Aggregator struct {
	log      *slog.Logger
	metrics  metrics
	registry *algorithm.Registry

	configure sync.Mutex // serialises Configure
	settings  atomic.Pointer[settings]
	hosts     hosts
	keys      atomic.Int64
	seed      maphash.Seed
	shards    [shards]shard
}

const shards = 64

// shard is a part of the keys, so that reports rarely wait for each other.
type shard struct {
	mu   sync.Mutex // protects keys and all in them
	keys map[name]*key

	_ [48]byte // a shard per cache line
}

// name is a key under one algorithm: a key that migrates has two.
type name struct{ algorithm, key string }

// settings is a Snapshot, worked out.
type settings struct {
	number   int // later ones have higher
	snapshot *dynamicconfig.Snapshot
	average  algorithm.Average
	stages   []algorithm.Stage
	maxKeys  int64
	maxHosts int
}

// key is what the aggregator knows of one name.
type key struct {
	settings *settings // under which rule was found
	rule     *dynamicconfig.Rule
	ledger   ledger
	round    *round        // of an algorithm that looks at all hosts at once
	state    algorithm.Key // of a Stateful algorithm, instead of both
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
	}
	for _, o := range options {
		o(a)
	}
	for i := range a.shards {
		a.shards[i].keys = make(map[name]*key)
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
	a.configure.Lock()
	defer a.configure.Unlock()

	if old := a.settings.Load(); old != nil {
		s.number = old.number + 1
	}
	a.settings.Store(s)
	return nil
}

// adopt brings k under s, unless it is under later ones. It returns false if
// no rule matches.
func (k *key) adopt(s *settings, text string) bool {
	if s.number <= k.settings.number {
		return k.rule != nil
	}
	if k.settings.average != s.average && k.state == nil {
		k.ledger.restage(s.stages)
	}
	k.rule, _ = s.snapshot.Match(text)
	k.settings, k.round = s, nil
	return k.rule != nil
}

// Step takes in what host used, at now, and fills grants in the order of
// usage. A key that cannot be decided (no rule, no room) gets no grant, and
// costs the others nothing. Usage that makes no sense is refused whole, with an
// error. Time is counted from any fixed point and does not
// go backwards.
func (a *Aggregator) Step(now time.Duration, host string, usage *rpc.Usage, grants *rpc.Grants) error {
	alg, err := a.registry.Lookup(usage.Algorithm)
	if err == nil {
		err = check(host, usage)
	}
	if err != nil {
		a.metrics.refused.Inc(1)
		return fmt.Errorf("aggregator: update from %q: %w", host, err)
	}
	_, stateful := alg.(algorithm.Stateful)
	resize(grants, usage.Len(), stateful)
	if f, ok := alg.(algorithm.Floored); ok {
		grants.Floor = rpc.Floor(f.Floor())
	}
	s := a.settings.Load()
	id := a.hosts.acquire(host)
	var rows int64 // more, that hold id
	for i, text := range usage.Keys {
		grant, lease, added := a.updateKey(now, s, alg, usage, i, text, id)
		if added {
			rows++
		}
		grants.Weight[i], grants.Burst[i], grants.Used[i], grants.Lease[i] = grant.Weight, grant.Burst, grant.Used, lease
		if stateful {
			grants.Tokens[i] = grant.Tokens
		}
	}
	a.hosts.add(id, rows-1)
	a.metrics.updates.Inc(1)
	a.metrics.updatedKeys.Inc(int64(usage.Len()))
	return nil
}

// updateKey is Step for row i, whose key is text. A zero lease means that
// there is no grant.
func (a *Aggregator) updateKey(now time.Duration, s *settings, alg algorithm.Algorithm, usage *rpc.Usage, i int, text string, host uint32) (g algorithm.Grant, lease time.Duration, added bool) {
	n := name{usage.Algorithm, text}
	sh := a.shard(text)
	sh.mu.Lock()
	defer sh.mu.Unlock()

	k := sh.keys[n]
	if k == nil {
		rule, ok := s.snapshot.Match(text)
		if !ok || a.keys.Load() >= s.maxKeys {
			a.metrics.noRoom.Inc(1)
			return g, 0, false
		}
		k = &key{settings: s, rule: rule}
		if st, ok := alg.(algorithm.Stateful); ok {
			k.state = st.NewKey(s.average.Interval)
		} else {
			k.ledger = newLedger()
		}
		sh.keys[name{strings.Clone(usage.Algorithm), strings.Clone(text)}] = k
		a.keys.Add(1)
	}
	if !k.adopt(s, text) {
		return g, 0, false
	}
	s = k.settings
	k.expire(now, a.forget)
	if !k.knows(host) && k.hosts() >= s.maxHosts {
		a.metrics.noRoom.Inc(1)
		return g, 0, false
	}
	if k.state != nil {
		return a.ask(now, k, usage, i, host)
	}
	if d := demand(usage, i); d.Total() > 0 {
		added = k.ledger.record(now, host, d, s.average, s.stages)
	}
	g, ok := k.grant(now, alg, host)
	if !ok {
		a.metrics.insane.Inc(1)
		return g, 0, added
	}
	return g, k.rule.Lease, added
}

// ask is updateKey for a Stateful algorithm.
func (a *Aggregator) ask(now time.Duration, k *key, usage *rpc.Usage, i int, host uint32) (g algorithm.Grant, lease time.Duration, added bool) {
	d := demand(usage, i)
	report := algorithm.Report{
		Allowed:  float64(usage.Allowed[i]),
		Rejected: float64(usage.Rejected[i]),
		Elapsed:  usage.Elapsed[i],
		Wants:    d.Total(),
		Has:      usage.Weight[i],
	}
	if usage.Wants != nil {
		report.Wants = usage.Wants[i]
	}
	before := k.state.Hosts()
	g, ok := k.state.Report(now, k.limit(), host, report)
	added = k.state.Hosts() > before
	switch {
	case !ok:
		return g, 0, added
	case !sane(g):
		a.metrics.insane.Inc(1)
		return g, 0, added
	}
	return g, k.rule.Lease, added
}

// expire forgets what is too old at now.
func (k *key) expire(now time.Duration, gone func(host uint32)) {
	if k.state != nil {
		k.state.Expire(now, gone)
		return
	}
	k.ledger.advance(now, k.settings.stages, gone)
}

func (k *key) hosts() int {
	if k.state != nil {
		return k.state.Hosts()
	}
	return k.ledger.len()
}

func (k *key) knows(host uint32) bool {
	if k.state != nil {
		return k.state.Knows(host)
	}
	_, known := k.ledger.index[host]
	return known
}

func (k *key) limit() algorithm.Limit {
	return algorithm.Limit{Rate: float64(k.rule.Limit), Burst: k.rule.Burst}
}

// demand is row i of usage as rates. Reports that follow each other closely
// say little: less than a second counts as one.
func demand(u *rpc.Usage, i int) algorithm.Demand {
	seconds := max(u.Elapsed[i].Seconds(), 1)
	return algorithm.Demand{Allowed: float64(u.Allowed[i]) / seconds, Rejected: float64(u.Rejected[i]) / seconds}
}

// forget is called when a row of host is gone.
func (a *Aggregator) forget(host uint32) { a.hosts.add(host, -1) }

// GC forgets hosts that have been silent for gc_after, and keys that have no
// hosts left. It takes each shard's lock for one key at a time.
func (a *Aggregator) GC(now time.Duration) {
	s := a.settings.Load()
	a.each(func(n name, k *key) bool {
		k.adopt(s, n.key)
		k.expire(now, a.forget)
		return k.hosts() > 0
	})
	a.metrics.keys.Update(float64(a.keys.Load()))
	a.metrics.hosts.Update(float64(a.hosts.len()))
}

// each calls f for every key and forgets those for which it returns false.
func (a *Aggregator) each(f func(name, *key) bool) {
	for i := range a.shards {
		sh := &a.shards[i]
		sh.mu.Lock()
		names := make([]name, 0, len(sh.keys))
		for n := range sh.keys {
			names = append(names, n)
		}
		sh.mu.Unlock()
		for _, n := range names {
			sh.mu.Lock()
			if k := sh.keys[n]; k != nil && !f(n, k) {
				delete(sh.keys, n)
				a.keys.Add(-1)
			}
			sh.mu.Unlock()
		}
	}
}

func (a *Aggregator) shard(key string) *shard {
	return &a.shards[maphash.String(a.seed, key)%shards]
}

// check refuses what no sane host sends. Transports check too; anyone may
// write a transport.
func check(host string, u *rpc.Usage) error {
	if host == "" || len(host) > rpc.MaxKeyLength {
		return fmt.Errorf("a host name has 1 to %d bytes, not %d", rpc.MaxKeyLength, len(host))
	}
	return u.Check()
}

// resize makes n rows of g, with tokens or without.
func resize(g *rpc.Grants, n int, tokens bool) {
	grow := func(column []float64) []float64 {
		if cap(column) >= n {
			return column[:n]
		}
		return make([]float64, n)
	}
	g.Weight, g.Burst, g.Used = grow(g.Weight), grow(g.Burst), grow(g.Used)
	if g.Tokens = nil; tokens {
		g.Tokens = make([]float64, n)
	}
	if cap(g.Lease) < n {
		g.Lease = make([]time.Duration, n)
	}
	g.Lease, g.Floor = g.Lease[:n], rpc.FloorNone
}
