// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/internal/budget"
	"github.com/headgate/headgate/limiter/internal/holding"
	"github.com/headgate/headgate/limiter/internal/keytable"
	"github.com/headgate/headgate/limiter/internal/remote"
	"github.com/headgate/headgate/limiter/internal/report"
	"github.com/headgate/headgate/limiter/internal/tracing"
	"github.com/headgate/headgate/limiter/internal/usage"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// registry is which keys there are: live ones, and idle ones, which only keep
// their place. Methods that end in Locked need the Set's mu.
//
// Admission takes the lock of one part of the table. A change of rules or of
// hosts first publishes the new settings, then waits for each part's lock once
// (publish). So a key that was admitted under the old settings is in live when
// the change goes over it, and a key that is admitted later sees the new ones.
type registry struct {
	*Config
	metrics  *usage.Metrics
	reporter *report.Reporter
	hub      *remote.Hub
	builder  holding.Builder
	traces   tracing.Traces

	settings atomic.Pointer[settings]
	table    *keytable.Table[Key]

	unmatched budget.Budget // warnings of keys without a rule

	freshMu sync.Mutex
	fresh   []*Key // admitted since the last merge; protected by freshMu

	live []*Key   // protected by the Set's mu
	idle idleKeys // protected by the Set's mu

	compared compared // protected by the Set's mu
}

// Interval is the update interval in force.
func (r *registry) Interval() time.Duration {
	return r.settings.Load().rules.properties().UpdateInterval
}

// Hosts is the number of hosts in force, at least 1.
func (r *registry) Hosts() int { return r.settings.Load().hosts }

// Live is the Key of a name that is live or idle; nil if there is none.
func (r *registry) Live(name string) *Key { return r.table.Get(name) }

// Counted is how many keys the rule of name has, live and idle.
func (r *registry) Counted(name string) int64 { return r.settings.Load().rules.match(name).keys.Load() }

// RateRule is the rule that limits the rate of a key now; nil if none does.
func (r *registry) RateRule(key string) *dynamicconfig.Rule {
	if rule, ok := r.settings.Load().rules.snapshot.Match(key); ok && !rule.InFlight {
		return rule
	}
	return nil
}

// watched reports whether there is a listener, or a trace of the key.
func (r *registry) watched(key string) bool { return r.Listener != nil || r.traces.Has(key) }

// publish puts next in force.
func (r *registry) publish(next *settings) {
	r.settings.Store(next)
	r.table.Barrier()
	r.mergeLocked()
}

// mergeLocked takes in the keys that were admitted since the last time.
func (r *registry) mergeLocked() {
	r.freshMu.Lock()
	r.live = append(r.live, r.fresh...)
	r.fresh = nil
	r.freshMu.Unlock()
}

// common is the Key that k decides through because its rule is shared; nil if k
// decides itself.
func (r *registry) common(now stage.Instant, k *Key, rule *ruleState) *Key {
	if !rule.shared || rule.isCommon(k.name) {
		return nil
	}
	of := k.set.For(rule.Rule.Key)
	of.Current(now)
	return of
}

// build gives k the state that its rule wants, out of the one that it has: see package
// holding. Either k is not live yet, and old is nil, or the Set's mu is held.
func (r *registry) build(now stage.Instant, k *Key, old *State, set *settings, rule *ruleState, common *Key) {
	if old == nil {
		old = &State{used: now}
	}
	plan := &rule.Plan
	if common != nil || rule.unmatched() {
		plan = nil
	}
	c := r.builder.Begin(now, k.name, &old.Holding, plan, set.hosts)
	next := &State{Holding: c.Next, rule: rule, forward: common, used: old.lastUsed()}
	switch {
	case common == nil && plan == nil:
		next.Stage, next.Reason = rule.full.Stage, rule.full.Reason
	case next.Slots != nil:
		next.Reason = stage.InFlight
	}
	next.touched.Store(!next.Has())
	next.setPlain(r.watched(k.name))
	k.state.Store(next)
	old.countDivergence()
	c.End()
}

// wake makes k live, which is not. Its part of the table is locked.
func (r *registry) wake(now stage.Instant, k *Key, set *settings, rule *ruleState, common *Key) {
	r.build(now, k, nil, set, rule, common)
	r.freshMu.Lock()
	r.fresh = append(r.fresh, k)
	r.freshMu.Unlock()
}

// attach makes k live and returns what decides for it. If another Key of its
// name is live, k forwards to that. If there is no room, k is refused, and tries
// again when there may be room.
func (r *registry) attach(now stage.Instant, k *Key) *State {
	if len(k.name) == 0 || len(k.name) > rpc.MaxKeyLength {
		return invalid
	}
	for {
		set := r.settings.Load()
		rule := set.rules.match(k.name)
		// Another caller may be admitting k: then its state is neither of the two.
		before := k.state.Load()
		if (before == nil || before.Reason == stage.TooManyKeys) && rule.keys.Load() >= rule.most() && r.table.Get(k.name) == nil &&
			!rule.shared && k.state.CompareAndSwap(before, rule.full) {
			return rule.full
		}
		if st, born, ok := r.admit(now, k, set, rule, r.common(now, k, rule)); ok {
			if born && rule.unmatched() {
				r.metrics.Unmatched.Inc(1)
				if r.unmatched.Spend(now, 1, 1) {
					r.Log.Warn("no rule matches a key", "key", set.rules.snapshot.Shown(k.name), "unmatched", set.rules.snapshot.Unmatched().String())
				}
			}
			return st
		}
	}
}

// admit does attach's work under the settings that attach read. born says that
// k is new in the table. ok is false if attach must try again: the settings have
// changed, or the Key that decides is not live any more. A Configure or SetHosts
// locks this part of the table after it stores new settings, so it sees every
// key that is admitted here.
func (r *registry) admit(now stage.Instant, k *Key, set *settings, rule *ruleState, common *Key) (st *State, born, ok bool) {
	p := r.table.Lock(k.name)
	defer p.Unlock()

	if r.settings.Load() != set {
		return nil, false, false
	}
	if live := p.Get(); live != nil {
		if st := live.state.Load(); st != nil && st.idle {
			if st.rule == rule {
				r.wake(now, live, set, rule, common)
			} else { // the rules have changed since, and it is as if it were new
				r.forget(now, p, live)
			}
		}
		if st := live.state.Load(); st != nil {
			if live != k {
				k.state.Store(&State{forward: live, rule: rule})
			}
			if st.forward != nil {
				if st.forward != common && st.rule == rule { // the common Key was forgotten; there is another
					st = st.copied(now) // and not st.used, which the Set's mu guards
					st.forward = common
					live.state.Store(st)
				}
				st = st.forwarded()
			}
			return st, false, st.live()
		}
	}
	if rule.keys.Add(1) > rule.most() && !rule.isCommon(k.name) {
		rule.keys.Add(-1)
		if common != nil { // it needs no place to decide
			st := common.state.Load()
			return st, false, st.live()
		}
		k.state.Store(rule.full)
		return rule.full, false, true
	}
	r.wake(now, k, set, rule, common)
	p.Put(k)
	r.changed(now, Created, k.name, rule.key())
	st = k.state.Load().forwarded()
	return st, true, st.live()
}

// forget takes k out of the table, whose part is locked. A Key that is held
// comes back when it is used. Usage that comes in meanwhile is in the next report. Unless
// k is idle, the Set's mu is held.
func (r *registry) forget(now stage.Instant, p keytable.Part[Key], k *Key) {
	st := k.state.Load()
	p.Delete()
	k.state.Store(nil)
	st.rule.keys.Add(-1)
	st.countDivergence()
	st.Retire(now) // from here on, its parts notify no listener
	r.changed(now, Removed, k.name, st.rule.key())
}

// rebuildLocked puts k under the rules of set, and reports whether there is
// room for it. A key that is one too many stays until nothing is lost by
// forgetting it: else it would come back with a full bucket.
func (r *registry) rebuildLocked(now stage.Instant, k *Key, st *State, set *settings) bool {
	rule := set.rules.match(k.name)
	if rule.keys.Add(1) > rule.most() && !rule.isCommon(k.name) && st.Full(now) {
		rule.keys.Add(-1)
		r.dropLocked(now, k)
		return false
	}
	build := func() { r.build(now, k, st, set, rule, r.common(now, k, rule)) }
	for _, p := range st.Subjects() {
		inner := build
		build = func() { r.reporter.SteerAndNotify(now, p, inner) }
	}
	build()
	return true
}

// idleLocked makes k idle, which was not used for some time, if nothing is lost by
// that, and reports whether it did. An idle key only keeps its place in the table.
// When k is used again, it begins with its fallback, as a new key does.
func (r *registry) idleLocked(now stage.Instant, k *Key, st *State) bool {
	st.used = min(st.used, now) // the first caller may have stated a time to come
	if st.touchedAt(now) || now.Sub(st.used) < dormantAfter*r.Interval() || !st.Dormant(now) {
		return false
	}
	p := r.table.Lock(k.name)
	defer p.Unlock()

	r.idle.add(k, st.lastUsed().Add(st.rule.Rule.IdleAfter))
	k.state.Store(st.rule.idle)
	st.Retire(now) // a caller may be using it still
	return true
}

// forgetIdleLocked forgets the keys that keep their place until an Instant before until.
func (r *registry) forgetIdleLocked(now, until stage.Instant) {
	r.idle.take(until, func(k *Key) {
		p := r.table.Lock(k.name)
		defer p.Unlock()
		if k.Idle() { // else it was used just now
			r.forget(now, p, k)
		}
	})
}

// dropLocked forgets k.
func (r *registry) dropLocked(now stage.Instant, k *Key) {
	p := r.table.Lock(k.name)
	defer p.Unlock()
	r.forget(now, p, k)
}

// state is what a key of the table decides by; nil if the table does not have the key.
func (r *registry) state(name string) *State {
	if k := r.table.Get(name); k != nil {
		return k.state.Load()
	}
	return nil
}

// stateOfLive is what a key decides by; the zero State if it is not live.
func (r *registry) stateOfLive(name string) *State {
	if st := r.state(name); st.live() {
		return st
	}
	return new(State)
}
