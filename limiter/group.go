// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
)

var inf = math.Inf(1)

// Even is the algorithm that divides a limit evenly, without any decider.
const Even = "even"

// Auto is the algorithm under which a key's owner says whether its hosts decide
// by their grants or ask for each event. With a Remote for it, they ask when
// they are told to; without, their fallback decides meanwhile.
const Auto = "auto"

// maxUnmatched bounds the keys without a rule that a Group remembers.
const maxUnmatched = 10_000

// Group holds the limiters of one host. Keys come to life at their first use
// and leave when they have been idle for their rule's idle_after.
//
// For and everything that a Limiter does are safe for concurrent use and do
// not wait for Report, Apply, Configure or SetHosts, which may be called at
// any time too.
type Group struct {
	log     *slog.Logger
	metrics metrics
	migrate func(old, new Stepper, mode dynamicconfig.Mode) Migrator

	eager, wanting map[string]bool   // algorithms
	remotes        map[string]Remote // by algorithm

	events *events // nil when nobody listens

	aside          func(f func()) // instead of a goroutine in the background
	busy           chan struct{}  // what goes on in the background
	remotesFailing atomic.Int64   // keys that fell back since their Remotes answered last

	early early
	wake  chan struct{} // tells Run that Early is due sooner

	table       table
	hosts       atomic.Int64
	intervalNow atomic.Int64

	// config guards admission against a change of rules half way through.
	config sync.RWMutex
	rules  *rules // protected by config

	freshMu sync.Mutex
	// admitted, or used though they were gone, since the last report;
	// protected by freshMu
	fresh      []*Keyed
	stragglers []*share

	failingMu sync.Mutex
	failing   map[string]bool // owners that did not answer last time; protected by failingMu

	mu     sync.Mutex // protects following fields, every Keyed's core and every share's state
	live   []*Keyed
	asleep []sleeper
	sizes  map[string]int    // rows of the last Report, by algorithm
	spare  map[string]*Batch // whose memory the next Report takes, by algorithm
	gone   []*share          // forgotten or replaced, with usage that is not reported yet
}

// rules is a Snapshot with what the group knows about each of its rules.
type rules struct {
	snapshot  *dynamicconfig.Snapshot
	unmatched *admitted

	mu    sync.Mutex
	state map[*dynamicconfig.Rule]*admitted // protected by mu
}

// admitted counts the keys of a rule, live and asleep.
type admitted struct {
	of    *rules
	rule  *dynamicconfig.Rule // nil for keys that no rule matches
	terms []*terms            // by algorithm, the old one first
	keys  atomic.Int64
	sleep *other // what keys that sleep decide by
}

func newAdmitted(of *rules, rule *dynamicconfig.Rule) *admitted {
	a := &admitted{of: of, rule: rule}
	a.sleep = &other{asleep: a}
	if rule != nil {
		for _, name := range algorithms(rule) {
			a.terms = append(a.terms, newTerms(rule, name))
		}
	}
	return a
}

// Option is a collaborator of a Group.
type Option func(*Group)

// WithLogger sets the logger; the default discards.
func WithLogger(log *slog.Logger) Option { return func(g *Group) { g.log = log } }

// WithScope sets where metrics go; the default is nowhere.
func WithScope(scope tally.Scope) Option { return func(g *Group) { g.metrics = newMetrics(scope) } }

// WithMigration sets how a rule's migration is carried out: package shadow
// has it. Without it, a rule with a migration uses the limiter that its mode
// answers with.
func WithMigration(migrate func(old, new Stepper, mode dynamicconfig.Mode) Migrator) Option {
	return func(g *Group) { g.migrate = migrate }
}

// NewGroup returns a Group of a host in a cluster of hosts hosts (0: not yet
// known, which is taken for 1) under the rules of snapshot.
func NewGroup(snapshot *dynamicconfig.Snapshot, hosts int, options ...Option) *Group {
	g := &Group{
		log:     slog.New(slog.DiscardHandler),
		metrics: newMetrics(tally.NoopScope),
		eager:   map[string]bool{Auto: true},
		wanting: make(map[string]bool),
		spare:   make(map[string]*Batch),
		wake:    make(chan struct{}, 1),
		busy:    make(chan struct{}, maxBackground),
	}
	g.early.rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	g.early.due.Store(int64(never))
	for _, o := range options {
		o(g)
	}
	g.table.init()
	g.hosts.Store(int64(max(hosts, 1)))
	g.rules = newRules(snapshot)
	g.intervalNow.Store(int64(snapshot.Properties().UpdateInterval))
	return g
}

func newRules(snapshot *dynamicconfig.Snapshot) *rules {
	r := &rules{snapshot: snapshot, state: make(map[*dynamicconfig.Rule]*admitted)}
	r.unmatched = newAdmitted(r, nil)
	return r
}

// match returns the count of key's rule.
func (r *rules) match(key string) *admitted {
	rule, ok := r.snapshot.Match(key)
	if !ok {
		return r.unmatched
	}
	r.mu.Lock()
	defer r.mu.Unlock()

	a := r.state[rule]
	if a == nil {
		a = newAdmitted(r, rule)
		r.state[rule] = a
	}
	return a
}

// For returns the limiter of key. It costs one lookup for a key that is live;
// another comes to life when its limiter is first used. A key that no rule
// matches, or that is one too many, gets a limiter too, which allows or
// refuses as config says.
func (g *Group) For(key string) *Keyed {
	if k := g.table.get(key); k != nil {
		return k
	}
	// The caller's string may be a piece of a large one.
	return &Keyed{group: g, key: strings.Clone(key)}
}

// attach makes k's key live and returns what decides for it. If another Keyed
// is live for the key, k forwards to it. If there is no room, k stays as it is
// and tries again at its next use.
func (g *Group) attach(now Instant, k *Keyed) Stepper {
	if len(k.key) == 0 || len(k.key) > rpc.MaxKeyLength {
		g.metrics.refused(ErrInvalidKey)
		return g.refusal(k.key, "", ErrInvalidKey)
	}
	step, born := g.admit(now, k)
	if r, ok := step.(refusal); ok {
		g.metrics.refused(r.err)
	}
	if born != nil && born.rule == nil {
		g.metrics.unmatched.Inc(1)
		g.log.Warn("no rule matches a key", "key", k.key, "unmatched", born.of.snapshot.Unmatched().String())
	}
	return step
}

// admit is attach, without telling anyone. It returns the rule's count if k
// became live.
func (g *Group) admit(now Instant, k *Keyed) (step Stepper, born *admitted) {
	g.config.RLock()
	defer g.config.RUnlock()

	a := g.rules.match(k.key)
	return g.enlist(now, k, a, g.common(now, a, k.key))
}

// common returns the Keyed that all keys of a shared rule decide through, or
// nil if key is not such a key. The config lock is held.
func (g *Group) common(now Instant, a *admitted, key string) *Keyed {
	if a.rule == nil || !a.rule.Shared || a.rule.Key == key {
		return nil
	}
	if k := g.table.get(a.rule.Key); k != nil {
		return k
	}
	g.enlist(now, &Keyed{group: g, key: a.rule.Key}, a, nil)
	return g.table.get(a.rule.Key)
}

// most is how many keys may be live.
func (a *admitted) most() int64 {
	if a.rule == nil {
		return maxUnmatched
	}
	return int64(a.rule.MaxKeys)
}

// enlist puts k into the table, if there is room and its key is not there.
// The config lock is held for reading.
func (g *Group) enlist(now Instant, k *Keyed, a *admitted, common *Keyed) (step Stepper, born *admitted) {
	h := g.table.hash(k.key)
	p := g.table.part(h)
	p.mu.Lock()
	defer p.mu.Unlock()

	live := p.get(h, k.key)
	if live != nil {
		o := live.other.Load()
		if o != nil && o.asleep == a {
			g.rouse(now, live, a, common)
		}
		if o == nil || o.asleep == nil || o.asleep == a {
			return k.through(live), nil
		}
		// The rules have changed since, and it is as if it were new.
		o.asleep.keys.Add(-1)
		p.deleteLocked(&g.table, h, live)
		live.other.Store(nil)
	}
	isCommon := a.rule != nil && a.rule.Shared && common == nil
	if a.keys.Add(1) > a.most() && !isCommon {
		a.keys.Add(-1)
		switch {
		case common != nil:
			return common, nil
		case a.rule == nil:
			return g.unmatchedStep(k.key), nil
		}
		return g.refusal(k.key, a.rule.Key, fmt.Errorf("rule %q with max_keys %d: %w", a.rule.Key, a.rule.MaxKeys, ErrTooManyKeys)), nil
	}
	g.rouse(now, k, a, common)
	p.putLocked(&g.table, h, k)
	g.tellOf(now, EventCreated, k.key, a.rule)
	return k.decider(), a
}

// rouse makes k live, which is not. Its part of the table is locked.
func (g *Group) rouse(now Instant, k *Keyed, a *admitted, common *Keyed) {
	g.shape(now, k, a, common)
	g.freshMu.Lock()
	g.fresh = append(g.fresh, k)
	g.freshMu.Unlock()
}

// through lets live decide for k, which may be live itself.
func (k *Keyed) through(live *Keyed) Stepper {
	if live == k {
		return k.decider()
	}
	k.other.Store(&other{step: live, forward: live})
	return live
}

// decider is what decides for a live Keyed.
func (k *Keyed) decider() Stepper {
	if s := k.share.Load(); s != nil {
		return s
	}
	return k.other.Load().step
}

// refusal refuses key because of err.
func (g *Group) refusal(key, rule string, err error) refusal {
	return refusal{err: err, key: key, rule: rule, events: g.events}
}

// unmatchedStep decides for keys that no rule matches. The config lock is held.
func (g *Group) unmatchedStep(key string) Stepper {
	if g.rules.snapshot.Unmatched() == dynamicconfig.UnmatchedDeny {
		return g.refusal(key, "", ErrUnmatched)
	}
	return unlimited{}
}
