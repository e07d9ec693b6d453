// SPDX-License-Identifier: Apache-2.0

// Package usage turns what the keys of a rule used into metrics.
//
//	decision ── Refused ──▶ Rule ── Flush, at each report ──▶ Metrics
//	part ── Counts ────────▶
//
// A decision that its bucket alone makes touches no metric: the bucket counts it, and each report
// adds that to the rule's Counts. The package knows neither keys nor buckets. The lock of the
// caller that flushes guards a Rule, but for what is atomic.
package usage

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/limiter/internal/bucket"
	"github.com/headgate/headgate/limiter/internal/share"
	"github.com/headgate/headgate/limiter/stage"
)

// Rule is what the decisions about the keys of one rule cost, since the last
// Flush. Refused, Waits, Charged and Returned are safe for concurrent use; the rest is guarded by
// the lock of the caller that flushes.
type Rule struct {
	// Counts is what the buckets have counted. What callers gave back is still in it: Returned counts that.
	Counts bucket.Usage

	// Asked is what was asked of the keys' owners beyond grants.
	Asked share.Asked

	key string

	// InFallback is how many keys use their fallback, as a report has found them.
	InFallback int

	refused    [stage.Reasons]atomic.Int64 // that buckets did not count, or counted as rejected
	counted    atomic.Int64                // of refused, what buckets counted as rejected
	waited     atomic.Int64
	charged    atomic.Int64
	returned   atomic.Int64
	divergence stage.Divergence
}

// Refused counts a decision about n tokens that is not granted. asked says
// that the stage was asked. It has counted the event as rejected, unless the caller left
// or everything is let through. As in a bucket, at most bucket.MaxCost tokens count. A
// negative cost counts as 1, so that it is seen.
func (r *Rule) Refused(reason stage.Reason, n int64, asked bool) {
	if n = min(n, bucket.MaxCost); n < 0 {
		n = 1
	}
	r.refused[reason].Add(n)
	if asked && reason != stage.Bypassed && reason != stage.Canceled {
		r.counted.Add(n)
	}
}

// Bypassed counts n tokens more, or less if n is negative, of events that were let through because of an override.
func (r *Rule) Bypassed(n int64) { r.refused[stage.Bypassed].Add(n) }

// Waits counts a decision that n tokens are granted after a wait. As in a bucket, at
// most bucket.MaxCost tokens count.
func (r *Rule) Waits(n int64) { r.waited.Add(min(n, bucket.MaxCost)) }

// Charged counts n tokens that were spent before anybody asked for them. As in a
// bucket, at most bucket.MaxCost tokens count.
func (r *Rule) Charged(n int64) { r.charged.Add(min(n, bucket.MaxCost)) }

// Returned counts n tokens that a caller gives back. As in a bucket, at most bucket.MaxCost tokens count.
func (r *Rule) Returned(n int64) { r.returned.Add(min(n, bucket.MaxCost)) }

// Diverged counts how the two sides of a migration answered.
func (r *Rule) Diverged(d stage.Divergence) { r.divergence = r.divergence.Plus(d) }

// Metrics are counters that are held, because looking one up costs more than a
// decision. Use New. Flush needs a lock.
type Metrics struct {
	Keys                                       tally.Gauge
	Unmatched, BadGrants, Answered, Unanswered tally.Counter
	RemoteFailures, Skipped, Dropped           tally.Counter

	// Waits is how long callers are asked to wait.
	Waits tally.Histogram

	scope tally.Scope
	rules map[string]*counters // by key

	used   sync.Map     // by key, the *Rule of each rule that was used
	number atomic.Int64 // of used
}

// waits are the buckets of how long a caller waits: 1 ms, each twice the last, to 16 s.
var waits = tally.MustMakeExponentialDurationBuckets(time.Millisecond, 2, 15)

// counters are the metrics of one rule.
type counters struct {
	scope           tally.Scope
	allowed, soft   tally.Counter
	bypassed        tally.Counter
	waited, charged tally.Counter
	due             bucket.Usage // not in the counters yet; at most 0
	fallbacks       tally.Gauge
	inFallback      int  // keys that use their fallback, as far as rules are flushed
	shown           bool // fallbacks is more than 0
	rejected        [stage.Reasons]tally.Counter
	divergence      *[5]tally.Counter // nil: no migration has measured yet
	asked           *asked            // nil: no owner was asked yet
}

// asked are the counters of a share.Asked.
type asked struct{ asks, granted, withheld, lent tally.Counter }

// New returns the Metrics of a host under scope.
func New(scope tally.Scope) *Metrics {
	scope = scope.SubScope("limiter")
	return &Metrics{
		Keys:           scope.Gauge("keys"),
		Unmatched:      scope.Counter("unmatched_keys"),
		BadGrants:      scope.Counter("bad_grants"),
		Answered:       scope.Counter("updates_answered"),
		Unanswered:     scope.Counter("updates_unanswered"),
		RemoteFailures: scope.Counter("remote_failures"),
		Skipped:        scope.Counter("background_skipped"),
		Dropped:        scope.Counter("events_dropped"),
		Waits:          scope.Histogram("wait_seconds", waits),
		scope:          scope,
		rules:          make(map[string]*counters),
	}
}

// Rule is what counts for the rule with this key. It outlives the rule: callers give tokens back later. Safe
// for concurrent use.
func (m *Metrics) Rule(key string) *Rule {
	found, ok := m.used.Load(key)
	if !ok {
		if m.number.Add(1) > maxRules {
			key = "…"
		}
		found, _ = m.used.LoadOrStore(key, &Rule{key: key})
	}
	r, _ := found.(*Rule) // nothing else is stored
	return r
}

// Flush adds what was counted since the last time, of all rules.
func (m *Metrics) Flush() {
	m.used.Range(func(_, v any) bool {
		if r, ok := v.(*Rule); ok {
			m.flush(r)
		}
		return true
	})
}

func (m *Metrics) flush(r *Rule) {
	key := r.key
	r.Counts.Allowed -= r.returned.Swap(0)
	r.Counts.Rejected -= r.counted.Swap(0)
	if r.Counts != (bucket.Usage{}) {
		// More may have been given back than was taken since the last time. A counter must not
		// decrease, so the difference waits for the next time, also if the rule is another by then.
		of := m.of(key)
		of.due.Allowed, of.due.Rejected = of.due.Allowed+r.Counts.Allowed, of.due.Rejected+r.Counts.Rejected
		r.Counts = bucket.Usage{}
		allowed, rejected := max(of.due.Allowed, 0), max(of.due.Rejected, 0)
		of.allowed.Inc(allowed)
		r.refused[stage.Limited].Add(rejected)
		of.due.Allowed, of.due.Rejected = of.due.Allowed-allowed, of.due.Rejected-rejected
	}
	for reason := range r.refused {
		if r.refused[reason].Load() == 0 {
			continue
		}
		n := r.refused[reason].Swap(0)
		switch stage.Reason(reason) {
		case stage.Soft:
			m.of(key).soft.Inc(n)
		case stage.Bypassed:
			if n < 0 { // a counter must not decrease, so the difference waits for the next time
				r.refused[reason].Add(n)
				continue
			}
			m.of(key).bypassed.Inc(n)
		default:
			m.of(key).rejectedFor(stage.Reason(reason)).Inc(n)
		}
	}
	if r.waited.Load() != 0 {
		m.of(key).waited.Inc(r.waited.Swap(0))
	}
	if r.charged.Load() != 0 {
		m.of(key).charged.Inc(r.charged.Swap(0))
	}
	if r.InFallback > 0 {
		m.of(key).inFallback += r.InFallback
		r.InFallback = 0
	}
	if a := r.Asked; a != (share.Asked{}) {
		r.Asked = share.Asked{}
		c := m.askedOf(key)
		c.asks.Inc(a.Asks)
		c.granted.Inc(a.Granted)
		c.withheld.Inc(a.Withheld)
		c.lent.Inc(a.Lent)
	}
	if d := r.divergence; d != (stage.Divergence{}) {
		r.divergence = stage.Divergence{}
		c := m.divergenceOf(key)
		for i, n := range [5]int64{d.Both, d.OnlyOld, d.OnlyNew, d.Neither, d.Skipped} {
			c[i].Inc(n)
		}
	}
}

// FlushFallbacks puts in the metrics how many keys use their fallback. Call it when a report has
// looked at all keys, and Flush has flushed their rules.
func (m *Metrics) FlushFallbacks() {
	for _, c := range m.rules {
		if c.inFallback > 0 || c.shown {
			c.fallbacks.Update(float64(c.inFallback))
		}
		c.inFallback, c.shown = 0, c.inFallback > 0
	}
}

// askedOf are the counters of what the rule with this key asked.
func (m *Metrics) askedOf(key string) *asked {
	c := m.of(key)
	if c.asked == nil {
		c.asked = &asked{
			asks:     c.scope.Counter("asks"),
			granted:  c.scope.Counter("asks_granted"),
			withheld: c.scope.Counter("asks_withheld"),
			lent:     c.scope.Counter("tokens_lent"),
		}
	}
	return c.asked
}

// divergenceOf are the counters of how the two sides of a migration of the rule with this key answered.
func (m *Metrics) divergenceOf(key string) *[5]tally.Counter {
	c := m.of(key)
	if c.divergence == nil {
		c.divergence = new([5]tally.Counter)
		for i, answer := range [5]string{"both", "only_old", "only_new", "neither", "not_measured"} {
			c.divergence[i] = c.scope.Tagged(map[string]string{"allowed_by": answer}).Counter("divergence")
		}
	}
	return c.divergence
}

// rejectedFor is the counter of what was rejected for a reason.
func (c *counters) rejectedFor(reason stage.Reason) tally.Counter {
	if c.rejected[reason] == nil {
		c.rejected[reason] = c.scope.Tagged(map[string]string{"reason": reason.String()}).Counter("rejected")
	}
	return c.rejected[reason]
}

// maxRules bounds the rules that have metrics of their own.
const maxRules = 10_000

// fromTheBeginning are the reasons whose counters a rule has from its first use on, at 0, so that
// alerts see the first rejection. The others come with it: each counter of a rule costs
// 2 kB of memory, and a line for each rule in /metrics.
var fromTheBeginning = [...]stage.Reason{stage.Limited, stage.TooManyKeys, stage.InFlight, stage.Failed}

// of are the metrics of the rule with this key.
func (m *Metrics) of(key string) *counters {
	if c := m.rules[key]; c != nil {
		return c
	}
	scope := m.scope.Tagged(map[string]string{"rule": cmp.Or(key, "(none)")})
	c := &counters{
		scope: scope, allowed: scope.Counter("allowed"), soft: scope.Counter("soft"), bypassed: scope.Counter("bypassed"),
		waited: scope.Counter("waited"), charged: scope.Counter("charged"), fallbacks: scope.Gauge("fallbacks"),
	}
	for _, reason := range fromTheBeginning {
		c.rejectedFor(reason)
	}
	m.rules[key] = c
	return c
}
