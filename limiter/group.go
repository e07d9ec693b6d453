// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/events"
	"github.com/headgate/headgate/limiter/internal/keytable"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Even is the algorithm that divides a limit evenly, without any owner.
const Even = "even"

// Auto is the algorithm under which a key's owner says whether its hosts decide
// by their grants or ask for each event. With a Remote for it, they ask when
// they are told to; without, their fallback decides meanwhile.
const Auto = share.Auto

// Measured is the demand to set that is not stated: it is measured again.
const Measured = share.Measured

// Group holds the limiters of one host. Keys come to life at their first use
// and leave when they have been idle for their rule's idle_after.
//
// For and everything that a Limiter does are safe for concurrent use and do
// not wait for reports, Configure or SetHosts, which may be called at any time
// too.
type Group struct {
	options
	metrics    metrics
	events     *events.Bus[Event] // nil if nobody listens
	background background
	failing    atomic.Int64 // keys that fell back since their remote buckets answered last
	table      *keytable.Table[Limiter]
	invalid    *state // what keys that are not valid decide by
	settings   atomic.Pointer[settings]

	freshMu sync.Mutex
	fresh   []*Limiter // admitted since the last merge; protected by freshMu

	// mu serialises what changes keys that are live. Admission takes only the
	// lock of its part of the table, which comes after mu.
	mu       sync.Mutex // protects following fields, and all of reporter that is not safe by itself
	reporter *report.Reporter
	live     []*Limiter
	sleepers []sleeper

	owing owing
}

// NewGroup returns a Group of a host in a cluster of hosts hosts (0: not yet
// known, which is taken for 1) under the rules of snapshot.
func NewGroup(snapshot *dynamicconfig.Snapshot, hosts int, opts ...Option) *Group {
	g := &Group{options: defaults(), table: keytable.New[Limiter]()}
	for _, o := range opts {
		o(&g.options)
	}
	g.metrics = newMetrics(g.scope)
	g.background = background{make(chan struct{}, maxBackground), g.log}
	g.invalid = &state{reason: stage.InvalidKey}
	if len(g.listeners) > 0 {
		g.events = events.New[Event]()
		for _, f := range g.listeners {
			g.events.Listen(f)
		}
	}
	random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	if g.seed != nil {
		random = rand.New(rand.NewPCG(*g.seed, *g.seed))
	}
	g.reporter = report.New(report.Config{
		Interval: g.Interval, Timeout: g.timeout, Rand: random,
		Fell: g.fell,
	})
	g.settings.Store(&settings{rules: g.newRules(snapshot), hosts: max(hosts, 1)})
	return g
}

// For returns the limiter of key. It costs one lookup for a key that is live;
// another comes to life when its limiter is first used. A key that no rule
// matches, or that is one too many, gets a limiter too, which allows or refuses
// as config says.
func (g *Group) For(key string) *Limiter {
	if l := g.table.Get(key); l != nil {
		return l
	}
	// The caller's string may be a piece of a large one.
	return &Limiter{group: g, key: strings.Clone(key)}
}

// Configure puts the rules of snapshot in force, for held limiters too. A key
// whose limit changed keeps its tokens.
func (g *Group) Configure(snapshot *dynamicconfig.Snapshot) {
	g.Manual().Configure(stage.Now(), snapshot)
}

// SetHosts tells how many hosts there are, which the even part depends on.
func (g *Group) SetHosts(hosts int) { g.Manual().SetHosts(stage.Now(), hosts) }

// Introduce has every key that reports early do so soon: the ring has changed,
// and new owners have to learn what their hosts hold.
func (g *Group) Introduce() { g.Manual().Introduce(stage.Now()) }

// Updater carries usage to the owners of keys and grants back. *rpc.Fanout is
// one.
type Updater = report.Updater

// Run reports every update_interval, and early what cannot wait, until ctx
// ends. It starts at a random point of the first interval so that hosts do
// not report in step. It is the only loop that a Group needs, and returns
// when all of its calls have.
func (g *Group) Run(ctx context.Context, updater Updater) {
	var listening sync.WaitGroup
	if g.events != nil {
		listening.Go(func() { g.events.Run(ctx, g.log, g.metrics.droppedEvents.Inc) })
	}
	defer listening.Wait()
	defer g.flush()
	g.loop(updater).Run(ctx)
}

func (g *Group) loop(updater Updater) *report.Loop {
	return &report.Loop{
		Steps: g.Manual(), Reporter: g.reporter, Updater: updater, Log: g.log,
		Answered: g.metrics.answered, Unanswered: g.metrics.unanswered,
	}
}

// Leave gives back what the host holds, so that others have it at once and not
// when its leases end: a last report says that it wants nothing. Limiters go by
// their fallbacks from then on, slots that are held stay held until they are
// released, and nothing is reported any more. It returns when all owners have
// answered, after update_timeout at the latest, or when ctx ends. Call it when
// Run has returned, and nothing is to be limited any more.
func (g *Group) Leave(ctx context.Context, updater Updater) {
	g.mu.Lock()
	g.mergeLocked()
	var subjects []*report.Subject
	for _, l := range g.live {
		subjects = append(subjects, l.state.Load().parts()...)
	}
	batches := g.reporter.Last(stage.Now(), g.settings.Load().hosts, subjects)
	g.metrics.flushAll(g.settings.Load().rules)
	g.mu.Unlock()

	var calls sync.WaitGroup
	g.loop(updater).SendLast(ctx, batches, &calls)
	calls.Wait()
}

// Interval is the update interval in force.
func (g *Group) Interval() time.Duration {
	return g.settings.Load().rules.snapshot.Properties().UpdateInterval
}

func (g *Group) timeout() time.Duration {
	return g.settings.Load().rules.snapshot.Properties().UpdateTimeout
}

// setDemand states the demand of l's key.
func (g *Group) setDemand(now stage.Instant, l *Limiter, wants float64) {
	if !(wants >= 0) {
		wants = Measured
	}
	st := l.current(now)
	g.mu.Lock()
	defer g.mu.Unlock()

	for _, p := range st.parts() {
		p.State(now, min(wants, maxDemand))
	}
}

// maxDemand bounds what is stated, so that sums stay finite.
const maxDemand = 1 << 53
