// SPDX-License-Identifier: Apache-2.0

// Package rules says what the rules of a config mean for the keys of an owner: which rule decides
// about a key under an algorithm, what the key's account must know of the rule, and how many keys
// it may have. The package knows no keys. Settings do not change; a new config makes new ones.
package rules

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/aggregator/internal/guard"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
)

// Settings are a Snapshot, worked out. They do not change, and are safe for concurrent
// use.
type Settings struct {
	Number   int // later Settings have higher numbers
	Accounts account.Settings
	Shortest time.Duration // a report about less time counts as one about that
	MaxKeys  int64
	MaxHosts int // of each key

	// Snapshot is the config that the Settings are made from.
	Snapshot *dynamicconfig.Snapshot

	// Side is what this owner reaches of a cluster that may be split.
	Side Side

	ended    atomic.Int64 // when later Settings replaced these; 0: not yet
	registry *algorithm.Registry
	built    sync.Map // what accounts must know, by rule and algorithm
	quotas   quotas
	weighers *guard.Weighers
}

// New returns the Settings of snapshot, for the algorithms in registry. Member returns
// the name and the labels of a host. Before, the Settings in force until now, may be nil.
func New(registry *algorithm.Registry, snapshot *dynamicconfig.Snapshot, member func(host uint32) account.Member, before *Settings) *Settings {
	p := snapshot.Properties()
	average := account.Average{
		Weight:     p.NewDataWeight,
		Interval:   p.UpdateInterval,
		DecayAfter: p.DecayAfter,
		GCAfter:    p.GCAfter,
	}
	s := &Settings{
		Accounts: account.Settings{Average: average, Stages: average.Stages(), Interval: p.UpdateInterval, Member: member},
		Shortest: min(time.Second, p.UpdateInterval),
		MaxKeys:  int64(p.MaxKeys),
		MaxHosts: p.MaxHostsPerKey,
		Snapshot: snapshot,
		registry: registry,
		weighers: new(guard.Weighers),
	}
	if before != nil {
		s.Number, s.Side, s.weighers = before.Number+1, before.Side, before.weighers
	}
	s.quotas = s.newQuotas(before)
	return s
}

// Current is which Settings are in force. It is safe for concurrent use.
type Current struct {
	mu      sync.Mutex // serialises Replace
	current atomic.Pointer[Settings]
}

// Load returns those that are in force; nil before the first.
func (c *Current) Load() *Settings { return c.current.Load() }

// Replace puts in force from now on what next returns of those until now, which are nil at first. If next returns
// nil, nothing changes.
func (c *Current) Replace(now time.Duration, next func(before *Settings) *Settings) {
	c.mu.Lock()
	defer c.mu.Unlock()

	before := c.Load()
	s := next(before)
	if s == nil {
		return
	}
	if before != nil {
		before.ended.Store(int64(max(now, 1)))
	}
	c.current.Store(s)
}

// Until is when s ended, if that was before now, and else now.
func (s *Settings) Until(now time.Duration) time.Duration {
	if ended := time.Duration(s.ended.Load()); ended != 0 {
		return min(ended, now)
	}
	return now
}

// Match is the rule for the key called text if it has the algorithm called named
// decide or measured. If not, it is nil, and instead is the rule that there is. Named
// is a canonical name, or dynamicconfig.Measured of one, here and below.
func (s *Settings) Match(text, named string) (rule, instead *dynamicconfig.Rule) {
	if rule, _ = s.Snapshot.Match(text); rule == nil {
		return nil, nil
	}
	if s.mentions(rule, named) {
		return rule, nil
	}
	return nil, rule
}

// mentions reports whether rule has the algorithm called name decide or measured.
func (s *Settings) mentions(rule *dynamicconfig.Rule, name string) bool {
	answering, other := s.named(rule)
	return name == answering || name == other
}

// Answering is the canonical name of the algorithm that answers for rule: of a
// migration, one of the two.
func (s *Settings) Answering(rule *dynamicconfig.Rule) string {
	answering, _ := s.named(rule)
	return answering
}

// named are the names of the algorithm that answers for rule, and of the other one of its
// migration, which is the same if there is none.
func (s *Settings) named(rule *dynamicconfig.Rule) (answering, other string) {
	names, i := rule.Algorithms(), max(rule.Answering(), 0)
	answering, other = s.registry.Canonical(names[i]), s.registry.Canonical(names[len(names)-1-i])
	if IsPooled(answering) && IsPooled(other) && answering != other && !Disabled(rule) { // then nothing is measured
		other = dynamicconfig.Measured(other)
	}
	return answering, other
}

// Disabled reports whether rule, which may be nil, has a migration that is disabled, so that it limits nothing.
func Disabled(rule *dynamicconfig.Rule) bool {
	return rule != nil && rule.Answering() < 0
}

// Shadows reports whether rule has another algorithm answer than the one called named.
func (s *Settings) Shadows(rule *dynamicconfig.Rule, named string) bool {
	return rule != nil && s.Answering(rule) != named
}

// Pooled are the names of one account, by how hosts reach it. A rule that names one
// of them instead of another changes how hosts reach the pool. A rule that migrates
// from one to another has the account under the one that answers, and measures the other
// with an account of its own, which ends with the measurement.
var Pooled = [...]string{
	algorithm.ReachNever:   algorithm.NameElastic,
	algorithm.ReachWhenOut: algorithm.NameAuto,
	algorithm.ReachAlways:  algorithm.NameExact,
}

// IsPooled reports whether name is one of Pooled.
func IsPooled(name string) bool { return slices.Contains(Pooled[:], name) }

// Lookup is the algorithm that a report names, and its canonical name.
func Lookup(r *algorithm.Registry, reported string) (a algorithm.Algorithm, named string, err error) {
	if plain, measured := dynamicconfig.Plain(reported); measured && IsPooled(r.Canonical(plain)) {
		a, err = r.Lookup(plain)
		return a, dynamicconfig.Measured(r.Canonical(plain)), err
	}
	a, err = r.Lookup(reported)
	return a, r.Canonical(reported), err
}

// Successor is the name under which rule wants the account of a key that is under the one
// called named: another of Pooled, or another of the same account; or none.
func (s *Settings) Successor(rule *dynamicconfig.Rule, named string) string {
	if rule == nil || Disabled(rule) || s.mentions(rule, named) || rule.InFlight && IsPooled(named) {
		return ""
	}
	if to := s.Answering(rule); s.Alike(named, to) {
		return to
	}
	return ""
}

// Alike reports whether a key under one name, which is canonical, can go on under the other:
// both are of Pooled, or of one account that does not care how it is divided.
func (s *Settings) Alike(named, other string) bool {
	if IsPooled(named) || IsPooled(other) {
		return IsPooled(named) && IsPooled(other)
	}
	a, err := s.registry.Lookup(named)
	b, also := s.registry.Lookup(other)
	return err == nil && also == nil && a.Account == b.Account && a.Account != algorithm.AccountPool
}

// Taken is the rule that says from what to take one by one for the key called text, and
// the name of that: another than named if the host that asks does not know the rule yet.
func (s *Settings) Taken(text, named string) (rule *dynamicconfig.Rule, name string, ok bool) {
	rule, instead := s.Match(text, named)
	if rule == nil {
		rule, named = instead, s.Successor(instead, named)
	}
	return rule, named, rule != nil && named != "" && !rule.InFlight
}

// Config is what the account of a key of rule, which may be nil, must know under the
// algorithm called name, whether the rule has that decide or not; an error if the rule's parameters cannot be
// used. There is one for each rule and algorithm.
func (s *Settings) Config(rule *dynamicconfig.Rule, name string) (*account.Config, error) {
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
	c := &account.Config{Settings: &s.Accounts, Rule: rule}
	if rule != nil && !s.mentions(rule, name) {
		if c.Rule = nil; !rule.InFlight && !rule.Parent {
			c.Instead = rule
		}
	}
	b := built{config: c}
	var parameters map[string]string
	if c.Rule != nil {
		parameters = rule.Parameters
		for priority, name := range rule.Priorities {
			if w, err := s.registry.InBand(name); err == nil {
				if c.Bands == nil {
					c.Bands = make(map[int64]algorithm.Weigher)
				}
				c.Bands[priority] = s.weighers.Bounded(name, w)
			}
		}
	}
	plain, _ := dynamicconfig.Plain(name)
	if c.Algorithm, b.err = s.registry.Build(plain, parameters); b.err == nil {
		c.Algorithm.Weigher = s.weighers.Bounded(name, c.Algorithm.Weigher)
	}
	s.built.Store(ruled{rule, name}, b)
	return b.config, b.err
}
