// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/holding"
	"github.com/headgate/headgate/limiter/internal/keytable"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/internal/tracing"
	"github.com/headgate/headgate/limiter/internal/usage"
	"github.com/headgate/headgate/limiter/stage"
)

// Set is the keys of one host under the rules in force. Use New. All methods
// are safe for concurrent use.
type Set struct {
	registry
	seed uint64 // of which events pass under rules that are not enforced in full

	// mu serializes what changes keys that are live. It protects live and idle
	// of the registry, the metrics, and all of the reporter that is not safe by
	// itself. The locks of the table's parts come after it.
	mu sync.Mutex

	waits waits
}

// Handle holds a Set, without the Set's methods: limiter.Group is one. Use New.
type Handle struct{ set Set }

// Set is the Set that h holds.
func (h *Handle) Set() *Set { return &h.set }

// New returns a Set under the rules of snapshot, nil for none, for one of hosts hosts; less
// than 1 counts as 1.
func New(c Config, snapshot *dynamicconfig.Snapshot, hosts int) *Handle {
	h := new(Handle)
	s := h.Set()
	c.fill()
	if snapshot == nil {
		snapshot, _ = dynamicconfig.Config{}.Snapshot() // which has no rules that could be wrong
	}
	s.Config = &c
	s.metrics = usage.New(c.Scope)
	s.hub = remote.NewHub(remote.HubConfig{
		Log: c.Log, Background: c.Background, Charges: c.Charges,
		Failures: s.metrics.RemoteFailures, Skipped: s.metrics.Skipped, FallbackChanged: s.fallbackChanged, RateRule: s.RateRule,
		Asking: func(key, name string) *remote.Stage { return holding.Asking(&s.stateOfLive(key).Holding, name) },
	})
	s.table = keytable.New[Key]()
	s.compared = make(compared)
	if s.seed = rand.Uint64(); c.Seed != nil {
		s.seed = *c.Seed
	}
	s.reporter = report.New(report.Config{
		Interval: s.Interval, Timeout: func() time.Duration { return s.settings.Load().rules.properties().UpdateTimeout }, Placement: c.Placement, Rand: rand.New(rand.NewPCG(s.seed, s.seed)), FallbackChanged: s.fallbackChanged, Successor: func(key, name string) *report.Subject { return s.stateOfLive(key).Find(name) },
	})
	s.builder = holding.Builder{Reporter: s.reporter, Hub: s.hub, Links: s.hub.Links(c.Remotes, c.Levels), Migrator: c.Migrator}
	s.settings.Store(&settings{rules: newRules(s, 0, snapshot), hosts: max(hosts, 1)})
	return h
}

// For returns the Key of a name. It costs one lookup for a key that is live;
// another comes to life when it is first used.
func (s *Set) For(name string) *Key {
	if k := s.table.Get(name); k != nil {
		return k
	}
	// The caller's string may be a piece of a large one.
	return &Key{set: s, name: strings.Clone(name)}
}

// Configure puts the rules of snapshot in force; nil changes nothing.
func (s *Set) Configure(now stage.Instant, snapshot *dynamicconfig.Snapshot) {
	if snapshot == nil {
		return
	}
	defer s.waits.follow(now) // without mu: a key that comes to life may log that
	s.mu.Lock()
	defer s.mu.Unlock()

	before := s.settings.Load().rules
	set := &settings{rules: newRules(s, before.number+1, snapshot), hosts: s.Hosts()}
	s.publish(set)
	close(before.replaced)
	s.reporter.Reconfigured()
	s.forgetIdleLocked(now, math.MaxInt64)
	live := s.live[:0]
	for _, k := range s.live {
		st := k.state.Load()
		// A key may have been admitted under the new rules.
		if st.rule.of == set.rules || s.rebuildLocked(now, k, st, set) {
			live = append(live, k)
		}
	}
	clear(s.live[len(live):])
	s.live = live
	s.compared.keep(snapshot)
}

// SetHosts sets how many hosts there are; less than 1 counts as 1.
func (s *Set) SetHosts(now stage.Instant, hosts int) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if hosts = max(hosts, 1); hosts == s.Hosts() {
		return
	}
	s.publish(&settings{rules: s.settings.Load().rules, hosts: hosts})
	s.eachLocked(func(p *report.Subject) {
		s.reporter.SteerAndNotify(now, p, func() { p.Part().Steer(now, hosts) })
	})
}

// Introduce has every key that reports early do so soon.
func (s *Set) Introduce(now stage.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.mergeLocked()
	s.eachLocked(func(p *report.Subject) { s.reporter.Introduce(now, p) })
}

func (s *Set) setDemand(now stage.Instant, k *Key, wants float64) {
	if wants = min(wants, 1<<53); !(wants >= 0) { // so that sums stay finite
		wants = share.Measured
	}
	k.Current(now) // a key that comes to life may log that
	s.mu.Lock()
	defer s.mu.Unlock()

	k.Current(now).State(now, wants)
	p := s.table.Lock(k.name)
	defer p.Unlock()
	if live := p.Get(); live != nil && !live.state.Load().Has() { // it may have parts later, and the demand then
		own := live.state.Load()
		next := own.copied(own.used)
		next.Holding = own.Stated(wants)
		live.state.Store(next)
	}
}

// Flush sends the charges to remote buckets that are left, and waits until they are answered.
func (s *Set) Flush() { s.hub.Flush() }

// Refill fills the buckets of a key, and forgives their debts. It waits for the buckets
// that are elsewhere, and returns their errors. Slots that are held stay held. A key that
// is not live has nothing to fill.
func (s *Set) Refill(ctx context.Context, now stage.Instant, name string) error {
	var errs []error
	for _, p := range s.refill(now, name) {
		errs = append(errs, p.RefillElsewhere(ctx, now))
	}
	return errors.Join(errs...)
}

// refill is Refill for what is on this host, and returns what is elsewhere.
func (s *Set) refill(now stage.Instant, name string) (elsewhere []share.RatePart) {
	if rule := s.settings.Load().rules.match(name); rule.shared {
		name = rule.key()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mergeLocked()
	st := s.state(name)
	if !st.live() {
		return nil
	}
	elsewhere = st.Refill(now)
	for _, p := range st.Subjects() {
		s.reporter.Introduce(now, p)
	}
	return elsewhere
}

// Inspect calls f with what a key decides by, and returns false if the key is
// not live. f must not call the Set.
func (s *Set) Inspect(name string, f func(st *State)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mergeLocked()
	st := s.state(name)
	if st == nil || st.idle {
		return false
	}
	f(st)
	return true
}

// Names are the live keys, in no order.
func (s *Set) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.mergeLocked()
	names := make([]string, 0, len(s.live))
	for _, k := range s.live {
		names = append(names, k.Name())
	}
	return names
}

// Answering calls f with the part of each live key that answers. f must not call the Set.
func (s *Set) Answering(f func(name string, p share.Part)) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.mergeLocked()
	for _, k := range s.live {
		if p := k.state.Load().Answering(); p != nil {
			f(k.name, p)
		}
	}
}

// Trace begins or ends to remember decisions about a key. It returns false if
// tracing.MaxKeys keys are traced already.
func (s *Set) Trace(name string, on bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if !s.traces.Set(name, on) {
		return false
	}
	s.table.Barrier() // what is admitted from now on is plain or not as traces say
	s.mergeLocked()
	if st := s.state(name); st.live() && st.Has() {
		next := st.copied(st.used)
		next.setPlain(s.watched(name))
		s.table.Get(name).state.Store(next)
	}
	return true
}

// Traced are the newest decisions about a key that Trace names; false if it names another.
func (s *Set) Traced(name string) ([]tracing.Decided, bool) { return s.traces.Of(name) }

// Denied remembers that a caller may not use a key, if the key is traced.
func (s *Set) Denied(name string, d tracing.Decided) {
	if s.traces.Any() {
		s.settings.Load().rules.match(name).trace(name, d)
	}
}

// eachLocked calls f for all parts of live keys.
func (s *Set) eachLocked(f func(p *report.Subject)) {
	for _, k := range s.live {
		for _, p := range k.state.Load().Subjects() {
			f(p)
		}
	}
}

// Join waits until no call goes on in the background.
func (s *Set) Join() { s.hub.Join() }
