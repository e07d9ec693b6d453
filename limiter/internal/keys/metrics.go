// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"cmp"
	"sync/atomic"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/limiter/stage"
)

// metrics are counters that are held, because looking one up costs more than a
// decision. The plain path touches none: what buckets count is added at each
// report.
type metrics struct {
	keys, fallbacks                            tally.Gauge
	unmatched, badGrants, answered, unanswered tally.Counter
	remoteFailures, skipped                    tally.Counter

	scope tally.Scope
	rules map[string]*ruleCounters // by key; guarded by the Set's mu
}

// ruleEvents are decisions of a rule that its buckets do not count, or count
// otherwise: cost by reason, and what of it buckets counted as rejected.
type ruleEvents struct {
	refused [stage.Reasons]atomic.Int64
	counted atomic.Int64

	divergence stage.Divergence // guarded by the Set's mu
}

// ruleCounters are the metrics of one rule.
type ruleCounters struct {
	allowed, soft tally.Counter
	rejected      [stage.Reasons]tally.Counter
	divergence    [5]tally.Counter
}

func newMetrics(scope tally.Scope) *metrics {
	scope = scope.SubScope("limiter")
	return &metrics{
		keys:           scope.Gauge("keys"),
		fallbacks:      scope.Gauge("fallbacks"),
		unmatched:      scope.Counter("unmatched_keys"),
		badGrants:      scope.Counter("bad_grants"),
		answered:       scope.Counter("updates_answered"),
		unanswered:     scope.Counter("updates_unanswered"),
		remoteFailures: scope.Counter("remote_failures"),
		skipped:        scope.Counter("background_skipped"),
		scope:          scope,
		rules:          make(map[string]*ruleCounters),
	}
}

// refused counts a decision that is not granted. counted says that the bucket
// has counted it as rejected.
func (a *ruleState) refused(reason stage.Reason, n int64, counted bool) {
	if a == nil || n < 0 {
		return
	}
	a.events.refused[reason].Add(n)
	if counted {
		a.events.counted.Add(n)
	}
}

// diverged adds up how the two sides of a migration answered.
func (m *metrics) diverged(st *State) {
	if st.migration == nil || st.migration.stages == nil {
		return
	}
	now, sum := st.Divergence(), &st.rule.events.divergence
	*sum = sum.Plus(now.Since(st.migration.counted))
	st.migration.counted = now
}

// report sets what a report has found.
func (m *metrics) report(keys, fallbacks int) {
	m.keys.Update(float64(keys))
	m.fallbacks.Update(float64(fallbacks))
}

// flushAll adds what was counted for all rules since the last time.
func (m *metrics) flushAll(r *rules) {
	if r.before != nil {
		m.flushAll(r.before)
	}
	m.flush(r.unmatched)
	r.states.Range(func(_, v any) bool {
		if a, ok := v.(*ruleState); ok {
			m.flush(a)
		}
		return true
	})
}

// flush adds what was counted for a rule since the last time.
func (m *metrics) flush(a *ruleState) {
	// What was given back may exceed what was taken since the last time. A
	// counter must not decrease, so the difference waits for the next time.
	c := &a.counts
	if c.Allowed > 0 {
		m.of(a).allowed.Inc(c.Allowed)
		c.Allowed = 0
	}
	c.Rejected -= a.events.counted.Swap(0)
	if c.Rejected > 0 {
		a.events.refused[stage.Limited].Add(c.Rejected)
		c.Rejected = 0
	}
	for reason := range a.events.refused {
		if a.events.refused[reason].Load() == 0 {
			continue
		}
		n := a.events.refused[reason].Swap(0)
		if stage.Reason(reason) == stage.Soft {
			m.of(a).soft.Inc(n)
		} else {
			m.of(a).rejected[reason].Inc(n)
		}
	}
	if d := a.events.divergence; d != (stage.Divergence{}) {
		a.events.divergence = stage.Divergence{}
		for i, n := range [5]int64{d.Both, d.OnlyOld, d.OnlyNew, d.Neither, d.Skipped} {
			m.of(a).divergence[i].Inc(n)
		}
	}
}

// maxRules bounds the rules that have metrics of their own.
const maxRules = 10_000

// of are the metrics of a rule.
func (m *metrics) of(a *ruleState) *ruleCounters {
	key := a.key()
	if c := m.rules[key]; c != nil {
		return c
	}
	if len(m.rules) >= maxRules {
		key = "…"
		if c := m.rules[key]; c != nil {
			return c
		}
	}
	scope := m.scope.Tagged(map[string]string{"rule": cmp.Or(key, "(none)")})
	c := &ruleCounters{allowed: scope.Counter("allowed"), soft: scope.Counter("soft")}
	for i := range c.rejected {
		c.rejected[i] = scope.Tagged(map[string]string{"reason": stage.Reason(i).String()}).Counter("rejected")
	}
	for i, answer := range [5]string{"both", "only_old", "only_new", "neither", "not_measured"} {
		c.divergence[i] = scope.Tagged(map[string]string{"allowed_by": answer}).Counter("divergence")
	}
	m.rules[key] = c
	return c
}
