// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/batches"
	"github.com/headgate/headgate/aggregator/internal/hosts"
	"github.com/headgate/headgate/aggregator/internal/table"
	"github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Aggregator decides for the keys that its host owns. It is safe for
// concurrent use. No report waits for longer than one key takes, or a look
// over a part of the keys' names.
type Aggregator struct {
	journal

	registry *algorithm.Registry
	accounts accounts

	configure sync.Mutex // serialises Configure
	settings  atomic.Pointer[settings]
	moved     atomic.Int64 // when keys last moved between owners, by Step's time
	parent    *parent.Client
	hosts     *hosts.Numbers
	keys      atomic.Int64
	number    uint32      // at random: who told callers what is left
	left      atomic.Bool // buckets were handed over, and do not decide any more
	batches   batches.Memory
	table     *table.Table[*key]
}

// shard is a part of the table, and book a part of that.
type shard = table.Shard[*key]

type book = table.Book[*key]

// settings is a Snapshot, worked out.
type settings struct {
	number   int // later ones have higher
	registry *algorithm.Registry
	built    sync.Map // what accounts must know, by rule and algorithm
	snapshot *dynamicconfig.Snapshot
	shortest time.Duration // period of a report; a shorter one counts as that
	accounts account.Settings
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
		journal:  journal{log: slog.New(slog.DiscardHandler), metrics: newMetrics(tally.NoopScope)},
		registry: registry,
		accounts: builtin,
		hosts:    hosts.New(),
		table:    table.New[*key](),
		number:   rand.Uint32() | 1,
	}
	for _, o := range options {
		o(a)
	}
	a.batches.Take, a.batches.Undo = a.Take, a.undo
	a.parent = parent.NewClient(a.log, Now, func() { a.metrics.refused.Inc(1) })
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
		maxKeys:  int64(p.MaxKeys),
		maxHosts: p.MaxHostsPerKey,
	}
	average := account.Average{
		Weight:     p.NewDataWeight,
		Interval:   p.UpdateInterval,
		DecayAfter: p.DecayAfter,
		GCAfter:    p.GCAfter,
	}
	if err := average.Validate(); err != nil {
		return fmt.Errorf("aggregator: configure: %w", err)
	}
	s.accounts = account.Settings{Average: average, Stages: average.Stages(), Interval: p.UpdateInterval, Member: a.hosts.Member}
	s.shortest = min(time.Second, p.UpdateInterval)
	a.configure.Lock()
	defer a.configure.Unlock()

	var before places
	if old := a.settings.Load(); old != nil {
		s.number, before = old.number+1, old.places
	}
	s.places = newPlaces(a.registry, snapshot, before)
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
	if err != nil {
		a.metrics.refused.Inc(1)
		return fmt.Errorf("aggregator: update from %q: %w", host, err)
	}
	resize(grants, report.Len(), alg.Account == algorithm.AccountPool)
	grants.Floor = floorOf(&alg)
	s := a.settings.Load()
	id := a.hosts.Acquire(host)
	defer a.hosts.Add(id, -1)

	u := newUpdate()
	defer u.done()

	u.a, u.settings = a, s
	u.usage, u.host, u.grants = report, id, grants
	u.algorithm = a.registry.Canonical(report.Algorithm)
	a.table.Visit(now, u.algorithm, report.Keys, id*7, &u.order, u)
	a.metrics.updates.Inc(1)
	a.metrics.updatedKeys.Inc(int64(report.Len()))
	return nil
}

// newKey makes room for a key and puts it into b, whose shard is locked; nil if
// there is no room, or no rule, when c is nil.
func (a *Aggregator) newKey(b *book, s *settings, c *account.Config, hash uint64, text string, now time.Duration) (*key, error) {
	if c == nil {
		a.metrics.noRoom.Inc(1)
		return nil, nil
	}
	k := &key{settings: s, rule: c.Rule, trims: now}
	k.account = a.accounts[c.Algorithm.Account](now, time.Duration(a.moved.Load()), c)
	if b, ok := k.account.(account.Bucketed); ok {
		k.account = newAsked(now, b, c.Algorithm.Reach == algorithm.ReachAlways)
	}
	if a.keys.Add(1) > s.maxKeys {
		a.keys.Add(-1)
		a.metrics.noRoom.Inc(1)
		return nil, nil
	}
	k.text = strings.Clone(text)
	b.Add(hash, k)
	a.raise(now, a.table.Shard(hash), b, k)
	return k, nil
}

// Label puts the labels of hosts in force: what membership says about each, by its
// name. Weighings see them; no report can change them.
func (a *Aggregator) Label(labels map[string]algorithm.Labels) { a.hosts.Label(labels) }

// Parent returns the client of the cluster above, which has to be run if rules have a
// parent.
func (a *Aggregator) Parent() *parent.Client { return a.parent }

// raise gives k, which is in sh, a cluster above if its rule has one by now. When
// it has none any more, adopt takes it away.
func (a *Aggregator) raise(now time.Duration, sh *shard, b *book, k *key) {
	if k.rule != nil && k.rule.Parent && k.above == nil {
		k.above = a.parent.Raise(now, parent.Key{Text: k.text, Account: k.account, Lock: sh}, k.rule, k.settings.shadows(k.rule, b.Algorithm()), k.settings.accounts.Interval)
	}
}

// Moved tells that keys may have moved between owners at now: keys that are new
// here from now on may have leases out that this owner does not know of.
func (a *Aggregator) Moved(now time.Duration) { a.moved.Store(int64(now)) }

// match is the rule for the key called text if it has the algorithm called named
// decide or measured. If not, it is nil, and instead is the rule that there is. Named
// is a canonical name.
func (s *settings) match(text, named string) (rule, instead *dynamicconfig.Rule) {
	if rule, _ = s.snapshot.Match(text); rule == nil {
		return nil, nil
	}
	if mentions(s.registry, rule, named) {
		return rule, nil
	}
	return nil, rule
}

// shadows reports whether rule has another algorithm answer than the one called named,
// which is a canonical name.
func (s *settings) shadows(rule *dynamicconfig.Rule, named string) bool {
	return rule != nil && s.registry.Canonical(answering(rule)) != named
}

// config is what the account of a key of rule, which may be nil, must know under the
// algorithm called name; an error if the rule's parameters cannot be used. There is one
// for each rule and algorithm.
func (s *settings) config(rule *dynamicconfig.Rule, name string) (*account.Config, error) {
	type ruled struct {
		rule *dynamicconfig.Rule
		name string
	}
	type built struct {
		config *account.Config
		err    error
	}
	if b, ok := s.built.Load(ruled{rule, name}); ok {
		b, _ := b.(built)
		return b.config, b.err
	}
	c := &account.Config{Settings: &s.accounts, Rule: rule}
	b := built{config: c}
	c.Algorithm, b.err = s.registry.Build(name, parameters(rule))
	if rule != nil {
		for priority, name := range rule.Priorities {
			if a, err := s.registry.Lookup(name); err == nil && a.Account == algorithm.AccountClaims {
				if c.Bands == nil {
					c.Bands = make(map[int64]algorithm.Weigher)
				}
				c.Bands[priority] = a.Weigher
			}
		}
	}
	s.built.Store(ruled{rule, name}, b)
	return b.config, b.err
}

// check refuses what no correct host sends. Transports check too; anyone may
// write a transport.
func check(host string, u *usage.Report) error {
	if err := rpc.CheckHost(host); err != nil {
		return err
	}
	return u.Check()
}

// floorOf is what hosts may take above their weight under alg.
func floorOf(alg *algorithm.Algorithm) usage.Floor {
	if alg.Account != algorithm.AccountAverage {
		return usage.FloorNone
	}
	return usage.Floor(alg.Weigher.Floor)
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
