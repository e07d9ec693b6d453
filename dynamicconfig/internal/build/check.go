// SPDX-License-Identifier: Apache-2.0

package build

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

// checker reports what is wrong with the stated fields of an entry, each by itself.
type checker struct {
	b *Builder
	e *Entry
}

// note says what is wrong with a field.
func (c checker) note(name, format string, args ...any) { c.b.Report(c.e, name, format, args...) }

// report is note, after which nothing else is said of the field.
func (c checker) report(name, format string, args ...any) {
	c.note(name, format, args...)
	c.e.Spoil(name)
}

// all checks all fields.
func (c checker) all() {
	e, r := c.e, &c.e.Rule
	if e.good("limit") {
		switch l := float64(r.Limit); {
		case r.InFlight:
			checkSlots("limit", l, c.report)
		case !quantity.Finite(l) || l < 0 || l > rule.MaxLimit:
			c.report("limit", "%s events/s is out of range: use 0/s to %s/s", quantity.Number(l), quantity.Number(rule.MaxLimit))
		case l > 0 && rule.LargestBurst(l) < 1:
			c.report("limit", "%s events/s is so low that one token takes more than 10 years: use 0/s, or at least 1e-4/h", quantity.Number(l))
		}
	}
	if e.good("burst") {
		c.burst()
	}
	if e.good("algorithm") {
		if err := rule.CheckNamed(r.Algorithm); err != nil {
			c.report("algorithm", "%v", err)
		}
		if e.Has("migrate") {
			c.report("algorithm", "is ignored beside migrate: remove one of the two")
		}
	}
	if e.good("migrate") {
		c.migration()
	}
	if e.good("fallback") && r.Fallback > rule.FallbackSafe {
		c.report("fallback", "there is no %v: use %s", r.Fallback, message.OneOf(rule.FallbackNames()))
	}
	if e.good("safe_capacity") {
		switch safe := float64(r.SafeCapacity); {
		case e.SafeInFlight && safe != 0:
			checkSlots("safe_capacity", safe, c.report)
		case !quantity.Finite(safe) || safe < 0 || safe > rule.MaxLimit:
			c.report("safe_capacity", "%s events/s is out of range: use more than 0/s and at most %s/s", quantity.Number(safe), quantity.Number(rule.MaxLimit))
		case safe == 0:
			c.report("safe_capacity", "0 allows nothing: use more than 0, or fallback: closed")
		}
	}
	within := func(name string, d, most time.Duration) {
		if e.good(name) && (d <= 0 || d > most) {
			c.report(name, "%s is out of range: use more than 0 and at most %s", quantity.Duration(d), quantity.Duration(most))
		}
	}
	within("lease", r.Lease, maxDuration)
	within("idle_after", r.IdleAfter, maxIdleAfter)
	if interval := c.b.content.Properties.UpdateInterval; e.good("lease") && r.Lease <= interval {
		c.report("lease", "%s ends before the next report: use more than update_interval, which is %s", quantity.Duration(r.Lease), quantity.Duration(interval))
	}
	c.leasing()
	c.terms()
	if e.good("max_keys") && (r.MaxKeys < 1 || r.MaxKeys > maxCount) {
		c.report("max_keys", "%d is out of range: use 1 to %d", r.MaxKeys, maxCount)
	}
	if e.good("description") && len(r.Description) > maxDescription {
		c.report("description", "has %d bytes: use at most %d", len(r.Description), maxDescription)
	}
}

func (c checker) burst() {
	e := c.e
	burst, limit := e.Rule.Burst, float64(e.Rule.Limit)
	switch {
	case !quantity.Finite(burst) || burst < 1 || burst > rule.MaxBurst:
		c.report("burst", "%s is out of range: use 1 to %s", quantity.Number(burst), quantity.Number(rule.MaxBurst))
	case !e.good("limit"):
	case e.Rule.InFlight:
		c.report("burst", "slots have no burst: remove burst")
	case limit == 0:
		c.report("burst", "a limit of 0 allows nothing, so it has no burst: remove burst")
	case burst > rule.LargestBurst(limit):
		c.report("burst", "%s takes more than 10 years to fill at this limit: use at most %s", quantity.Number(burst), quantity.Number(rule.LargestBurst(limit)))
	}
}

func (c checker) migration() {
	e := c.e
	m := e.Rule.Migration
	for _, side := range []struct{ name, algorithm string }{{"from", m.From}, {"to", m.To}} {
		if err := rule.CheckNamed(side.algorithm); err != nil && !e.fields.get("migrate."+side.name).Bad {
			c.note("migrate."+side.name, "%v", err)
			e.Spoil("migrate")
		}
	}
	if m.From == m.To && m.From != "" {
		c.report("migrate", "from and to are both %s: name two algorithms, or write algorithm: %s alone", message.Quote(m.From), m.To)
	}
	if m.Mode > rule.ModeNew {
		c.report("migrate", "there is no %v: use %s", m.Mode, message.OneOf(rule.ModeNames()))
	}
}
