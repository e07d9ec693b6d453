// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"sync/atomic"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/holding"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/internal/tracing"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc"
)

// Key is one key of a Set, or a stage without a Set. It stays valid for ever:
// a key that was forgotten comes back when it is used. All methods but Serve
// are safe for concurrent use.
type Key struct {
	state atomic.Pointer[State] // what decides now; nil while the key is not live
	set   *Set                  // nil if it has no rules
	name  string
}

// Serve has k, which has no Set, decide by s. It is called once, before k is
// used.
func (k *Key) Serve(s stage.Stage) {
	k.state.Store(&State{Holding: holding.Holding{Stage: s}, bare: true})
}

// Name is the full key; empty without a Set.
func (k *Key) Name() string { return k.name }

// Shown is the full key as logs may have it: see dynamicconfig.Rule. Of a key that is too
// long to be valid, it is the beginning.
func (k *Key) Shown() string {
	name, rest := k.name, ""
	if len(name) > rpc.MaxKeyLength {
		name, rest = name[:rpc.MaxKeyLength], "…"
	}
	if k.set != nil {
		name = k.set.settings.Load().rules.snapshot.Shown(name)
	}
	return name + rest
}

// Plain is the bucket that alone decides: the rule has no terms, there is no
// shadow, and no listener or trace. nil if there is more to do.
func (k *Key) Plain() *share.Rate {
	if st := k.state.Load(); st != nil {
		return st.plain
	}
	return nil
}

// Bare is what decides now if its stage alone does: the rule has no terms, and there is no listener or
// trace. nil if there is more to do.
func (k *Key) Bare() *State {
	if st := k.state.Load(); st != nil && st.bare {
		return st
	}
	return nil
}

// PlainSlots are the slots that decide if no migration is under way, else nil.
func (k *Key) PlainSlots() *share.Slots {
	st := k.state.Load()
	if st == nil {
		return nil
	}
	s, _ := st.Slots.(*share.Slots)
	return s
}

// Idle reports whether k only keeps its place.
func (k *Key) Idle() bool { st := k.state.Load(); return st != nil && st.idle }

// Current is what decides at now. It makes the key live if it is not.
func (k *Key) Current(now stage.Instant) *State {
	st := k.state.Load()
	switch {
	case st == nil || st.idle:
	case st.forward != nil:
		st.touch()
		to := st.forward.state.Load()
		if to != nil && to.forward != nil { // the key is one of a shared rule
			to.touch()
			to = to.forward.state.Load()
		}
		switch {
		case !to.live():
		case to.Has():
			return to
		case !to.rule.stale(to): // it has no usage that would say that it is in use
			to.touch()
			return to
		}
	case st.Has() || st.rule == nil:
		return st
	case !st.rule.stale(st) && (st.Reason != stage.TooManyKeys || k.set.table.Get(k.name) == nil): // another Key of this name may be live
		st.touch()
		return st
	}
	if k.set == nil { // the zero Key
		return invalid
	}
	return k.set.attach(now, k)
}

// invalid is the State of a Key whose name is not valid, and of the zero Key.
var invalid = &State{Reason: stage.InvalidKey}

// Counts reports whether what st's slots gave counts at now: they still answer.
func (k *Key) Counts(now stage.Instant, st *State) bool {
	return k.state.Load() == st || k.Current(now).AnsweringSlots() == st.AnsweringSlots()
}

// Level is what the host applies at now.
func (k *Key) Level(now stage.Instant) stage.Level { return k.Current(now).Applied(now) }

// Watched reports whether there is a listener, or a trace.
func (k *Key) Watched() bool {
	return k.set != nil && (k.set.Listener != nil || k.set.traces.Any())
}

// Count counts a decision about n tokens, and notifies the listener and the trace. st decided.
// asked says that st's stage was asked: see usage.Rule's Refused. Count does not count
// events again that the stage granted, or refused because of the limit.
func (k *Key) Count(now stage.Instant, st *State, n int64, v stage.Verdict, asked bool) {
	if k.set == nil {
		return
	}
	rule := st.rule
	if rule == nil { // the key is not valid
		in := k.set.settings.Load().rules
		rule = in.of(&in.none)
	}
	if v.Reason != stage.Granted && (v.Reason != stage.Limited || !asked) {
		rule.usage.Refused(v.Reason, n, asked)
	}
	if !asked { // it costs too much, or there is no stage
		st.touch()
	}
	if bypassed := v.Reason == stage.Bypassed; n > 0 && (bypassed || !asked) {
		st.CountBeside(n, bypassed)
	}
	if v.Wait > 0 && v.OK() {
		rule.usage.Waits(n)
		k.set.metrics.Waits.RecordDuration(v.Wait)
	}
	if k.set.Listener != nil {
		k.set.Listener.Decided(now, k.name, rule.key(), n, v)
	}
	rule.trace(k.name, tracing.Decided{Verdict: v, At: now, N: n})
}

// Settle settles a receipt of st. What comes back counts here, under the rule by which it was taken: the part that gave it
// may not answer any more, or the rule be gone.
func (k *Key) Settle(now stage.Instant, st *State, receipt stage.Receipt, actual int64) {
	st.Stage.Settle(now, receipt, actual)
	if back := receipt.N - actual; st.rule != nil && receipt.N > 0 && back > 0 {
		st.rule.usage.Returned(back)
	}
}

// Recount says that an event that st let through because of an override cost actual tokens.
func (k *Key) Recount(st *State, asked, actual int64) {
	if more := min(actual, bucket.MaxCost) - min(asked, bucket.MaxCost); k.set != nil && more != 0 {
		st.CountBeside(more, true)
		st.rule.usage.Bypassed(more)
	}
}

// Charged counts a charge of n tokens that st decided, as far as a bucket can be charged. While the rule
// lets everything through, nothing was charged.
func (k *Key) Charged(st *State, n int64) {
	if k.set != nil && st.rule.limits() {
		st.rule.usage.Charged(st.Chargeable(n))
	}
}

// Open reports whether the rules in force let everything through, as a bypass does, or
// the stage of a key without a Set. The answer holds until one of changed is closed.
func (k *Key) Open() (open bool, changed []<-chan struct{}) {
	if k.set != nil {
		in := k.set.settings.Load().rules
		return in.match(k.name).open(), []<-chan struct{}{in.replaced}
	}
	if st := k.state.Load(); st != nil {
		return st.Stage.Open()
	}
	return false, nil
}

// SetDemand states how much the host wants of the key, in events/s or slots. A
// negative number, or NaN, ends the statement.
func (k *Key) SetDemand(now stage.Instant, wants float64) {
	if k.set != nil {
		k.set.setDemand(now, k, wants)
	}
}
