// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Bounds that are the same for all rules.
const (
	maxDuration    = 24 * time.Hour
	maxIdleAfter   = 30 * 24 * time.Hour
	maxCount       = 1_000_000_000
	maxDescription = 4096

	defaultAlgorithm      = "auto"
	defaultUpdateInterval = 3 * time.Second
	defaultMaxKeys        = 100_000
)

// properties checks p and fills in its defaults. stated says which fields a
// file stated, by their names there; nil when made in code.
func (b *builder) properties(p Properties, stated map[string]field) {
	report := func(name, format string, args ...any) {
		if !stated[name].bad {
			b.add(stated[name].at, name+": "+format, args...)
		}
	}
	zero := func(name string, isZero bool) bool { // whether the default applies
		f, ok := stated[name]
		return isZero && (!ok || f.bad)
	}
	between := func(name string, v *time.Duration, byDefault, least, most time.Duration) {
		if zero(name, *v == 0) {
			*v = byDefault
		} else if *v < least || *v > most {
			from := quantity.Duration(least) + " to "
			if least == 1 {
				from = "more than 0 and at most "
			}
			report(name, "%s is out of range: use %s%s", quantity.Duration(*v), from, quantity.Duration(most))
			*v = byDefault
		}
	}
	between("update_interval", &p.UpdateInterval, defaultUpdateInterval, 100*time.Millisecond, time.Hour)
	interval := p.UpdateInterval

	if zero("update_timeout", p.UpdateTimeout == 0) {
		p.UpdateTimeout = min(time.Second, interval)
	} else if p.UpdateTimeout <= 0 || p.UpdateTimeout > interval {
		report("update_timeout", "%s is out of range: use more than 0 and at most update_interval, which is %s", quantity.Duration(p.UpdateTimeout), quantity.Duration(interval))
	}
	if zero("new_data_weight", p.NewDataWeight == 0) {
		p.NewDataWeight = 0.5
	} else if !(p.NewDataWeight > 0 && p.NewDataWeight <= 1) {
		report("new_data_weight", "%s is out of range: use more than 0 and at most 1", quantity.Number(p.NewDataWeight))
	}
	between("decay_after", &p.DecayAfter, 2*interval, 1, maxDuration)
	if zero("gc_after", p.GCAfter == 0) {
		p.GCAfter = max(10*interval, p.DecayAfter)
	} else if p.GCAfter < p.DecayAfter || p.GCAfter > maxDuration {
		report("gc_after", "%s is out of range: use decay_after, which is %s, to %s", quantity.Duration(p.GCAfter), quantity.Duration(p.DecayAfter), quantity.Duration(maxDuration))
	}
	count := func(name string, v *int, byDefault int) {
		if zero(name, *v == 0) {
			*v = byDefault
		} else if *v < 1 || *v > maxCount {
			report(name, "%d is out of range: use 1 to %d", *v, maxCount)
		}
	}
	count("max_owned_keys", &p.MaxKeys, 1_000_000)
	count("max_hosts_per_key", &p.MaxHostsPerKey, 10_000)
	b.snapshot.properties = p
}

// check reports what is wrong with the stated fields of e, each by itself.
func (b *builder) check(e *entry) {
	r := &e.rule
	report := func(name, format string, args ...any) {
		b.report(e, name, format, args...)
		e.spoil(name)
	}
	if e.good("limit") {
		switch l := float64(r.Limit); {
		case r.InFlight:
			checkSlots("limit", l, report)
		case !quantity.Finite(l) || l < 0 || l > rule.MaxLimit:
			report("limit", "%s events/s is out of range: use 0/s to %s/s", quantity.Number(l), quantity.Number(rule.MaxLimit))
		case l > 0 && rule.LargestBurst(l) < 1:
			report("limit", "%s events/s is so low that one token takes more than 10 years: use 0/s, or at least 1e-4/h", quantity.Number(l))
		}
	}
	if e.good("burst") {
		b.checkBurst(e, report)
	}
	if e.good("algorithm") {
		if err := rule.CheckNamed(r.Algorithm); err != nil {
			report("algorithm", "%v", err)
		}
		if e.has("migrate") {
			report("algorithm", "is ignored beside migrate: remove one of the two")
		}
	}
	if e.good("migrate") {
		b.checkMigration(e, report)
	}
	if e.good("fallback") && r.Fallback > FallbackSafe {
		report("fallback", "there is no %v: use %s", r.Fallback, message.OneOf(rule.FallbackNames()))
	}
	if e.good("safe_capacity") {
		switch c := float64(r.SafeCapacity); {
		case e.safeInFlight && c != 0:
			checkSlots("safe_capacity", c, report)
		case !quantity.Finite(c) || c < 0 || c > rule.MaxLimit:
			report("safe_capacity", "%s events/s is out of range: use more than 0/s and at most %s/s", quantity.Number(c), quantity.Number(rule.MaxLimit))
		case c == 0:
			report("safe_capacity", "0 allows nothing: use more than 0, or fallback: closed")
		}
	}
	within := func(name string, d, most time.Duration) {
		if e.good(name) && (d <= 0 || d > most) {
			report(name, "%s is out of range: use more than 0 and at most %s", quantity.Duration(d), quantity.Duration(most))
		}
	}
	within("lease", r.Lease, maxDuration)
	within("idle_after", r.IdleAfter, maxIdleAfter)
	if interval := b.snapshot.properties.UpdateInterval; e.good("lease") && r.Lease <= interval {
		report("lease", "%s ends before the next report: use more than update_interval, which is %s", quantity.Duration(r.Lease), quantity.Duration(interval))
	}
	b.checkLeasing(e, report)
	b.checkTerms(e, report)
	if e.good("max_keys") && (r.MaxKeys < 1 || r.MaxKeys > maxCount) {
		report("max_keys", "%d is out of range: use 1 to %d", r.MaxKeys, maxCount)
	}
	if e.good("description") && len(r.Description) > maxDescription {
		report("description", "has %d bytes: use at most %d", len(r.Description), maxDescription)
	}
}

func (b *builder) checkBurst(e *entry, report func(name, format string, args ...any)) {
	burst, limit := e.rule.Burst, float64(e.rule.Limit)
	switch {
	case !quantity.Finite(burst) || burst < 1 || burst > rule.MaxBurst:
		report("burst", "%s is out of range: use 1 to %s", quantity.Number(burst), quantity.Number(rule.MaxBurst))
	case !e.good("limit"):
	case e.rule.InFlight:
		report("burst", "slots have no burst: remove burst")
	case limit == 0:
		report("burst", "a limit of 0 allows nothing, so it has no burst: remove burst")
	case burst > rule.LargestBurst(limit):
		report("burst", "%s takes more than 10 years to fill at this limit: use at most %s", quantity.Number(burst), quantity.Number(rule.LargestBurst(limit)))
	}
}

func (b *builder) checkMigration(e *entry, report func(name, format string, args ...any)) {
	m := e.rule.Migration
	for _, side := range []struct{ name, algorithm string }{{"from", m.From}, {"to", m.To}} {
		if err := rule.CheckNamed(side.algorithm); err != nil && !e.fields.get("migrate."+side.name).bad {
			b.report(e, "migrate."+side.name, "%v", err)
			e.spoil("migrate")
		}
	}
	if m.From == m.To && m.From != "" {
		report("migrate", "from and to are both %s: name two algorithms, or write algorithm: %s alone", message.Quote(m.From), m.To)
	}
	if m.Mode > ModeNew {
		report("migrate", "there is no %v: use %s", m.Mode, message.OneOf(rule.ModeNames()))
	}
}
