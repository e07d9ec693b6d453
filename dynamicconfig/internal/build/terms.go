// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// termFields say how one event is decided.
var termFields = []string{"max_wait", "max_debt", "max_cost", "enforce", "ask_timeout"}

// terms reports what is wrong with the stated fields about one event,
// each by itself.
func (c checker) terms() {
	e, r := c.e, &c.e.Rule
	if e.good("limit") && r.InFlight {
		for _, name := range termFields {
			if e.good(name) {
				c.report(name, "is for events, and this rule limits slots in flight: remove it")
			}
		}
		return
	}
	stated := func(name string, d time.Duration) {
		if e.good(name) && d != rule.None && (d <= 0 || d > maxDuration) {
			c.report(name, "%s is out of range: use 0s for none, or at most %s", quantity.Duration(d), quantity.Duration(maxDuration))
		}
	}
	stated("max_wait", r.MaxWait)
	stated("max_debt", r.MaxDebt)
	if e.good("max_cost") && (!quantity.Finite(r.MaxCost) || r.MaxCost < 1 || r.MaxCost > rule.MaxCost) {
		c.report("max_cost", "%s is out of range: use 1 to %s", quantity.Number(r.MaxCost), quantity.Number(rule.MaxCost))
	}
	if e.good("ask_timeout") && (r.AskTimeout < rule.MinAskTimeout || r.AskTimeout > rule.MaxAskTimeout) {
		c.report("ask_timeout", "%s is out of range: use %s to %s", quantity.Duration(r.AskTimeout), quantity.Duration(rule.MinAskTimeout), quantity.Duration(rule.MaxAskTimeout))
	}
	if e.good("enforce") && r.Enforce != rule.Soft && !(r.Enforce > 0 && r.Enforce <= 1) {
		c.report("enforce", "%s%% is out of range: use 0%% to 100%%", quantity.Number(r.Enforce*100))
	}
}

// fillTerms takes the fields about one event from the defaults, and refuses
// those that do not fit the rest of the rule. Its burst is known by now.
func (b *Builder) fillTerms(e *Entry, r *rule.Rule) {
	if r.InFlight {
		return // the defaults are for events
	}
	base := b.base
	if !e.Has("max_wait") && base.good("max_wait") {
		r.MaxWait = base.Rule.MaxWait
	}
	if !e.Has("max_debt") && base.good("max_debt") {
		r.MaxDebt = base.Rule.MaxDebt
	}
	if !e.Has("enforce") && base.good("enforce") {
		r.Enforce = base.Rule.Enforce
	}
	b.fillAskTimeout(e, r)
	fits := !e.Has("burst") || e.good("burst")
	if e.good("max_cost") && e.good("limit") && fits && r.MaxDebt <= 0 && r.MaxCost > r.Burst {
		b.Report(e, "max_cost", "%s can never be had from a burst of %s: use at most that%s", quantity.Number(r.MaxCost), quantity.Number(r.Burst), orDebt(r))
	}
}

// orDebt names the shortest max_debt, in whole seconds, that lets an event of max_cost
// through; or nothing, where max_debt may not be so long.
func orDebt(r *rule.Rule) string {
	seconds := math.Ceil((r.MaxCost - r.Burst) / float64(r.Limit))
	if !(seconds <= maxDuration.Seconds()) {
		return ""
	}
	return ", or add max_debt: " + quantity.Duration(time.Duration(seconds)*time.Second)
}

// TooCostly says that no event may cost what max_cost allows, because its debt would outlast
// max_debt; "" if one may. The largest max_cost is meant as no bound, as imported rules have it.
func TooCostly(r *rule.Rule) string {
	most := math.Floor(r.Burst + float64(r.Limit)*r.MaxDebt.Seconds())
	if r.InFlight || r.MaxDebt <= 0 || r.MaxCost <= most || r.MaxCost == rule.MaxCost || r.Limit <= 0 {
		return ""
	}
	return fmt.Sprintf("max_cost: %s can never be had: the burst and what fills in within max_debt are %s: use at most that%s",
		quantity.Number(r.MaxCost), quantity.Number(most), orDebt(r))
}

func (b *Builder) fillAskTimeout(e *Entry, r *rule.Rule) {
	asked := slices.ContainsFunc(algorithmsOf(r), func(a named) bool { return asks(a.algorithm) })
	switch {
	case e.good("ask_timeout") && !asked:
		b.Report(e, "ask_timeout", "is for an algorithm that asks the key's owner for each event, and this rule's does not: use %s, or remove it", message.OneOf(builtinThat(func(t rule.Traits) bool { return t.Asks })))
	case e.Has("ask_timeout") || !asked:
	case b.base.good("ask_timeout"):
		r.AskTimeout = b.base.Rule.AskTimeout
	default:
		r.AskTimeout = rule.DefaultAskTimeout
	}
}

// asks reports whether an algorithm asks the key's owner for each event, as far
// as its name tells: one of the service's own may do so.
func asks(algorithm string) bool {
	t, ok := rule.TraitsOf(algorithm)
	return !ok || t.Asks
}
