// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"strings"

	"github.com/headgate/headgate/dynamicconfig/internal/glob"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

// Override is a rule.Override before it is checked.
type Override struct {
	rule.Override

	Who    string          // for messages
	At     Mark            // where it begins
	Stated map[string]Mark // the fields that are stated
	Bad    map[string]bool // of them, those that were reported already
}

// Override takes the next override.
func (b *Builder) Override(o *Override) {
	o.check(b.problems)
	if o.Key != "" && !o.Bad["key"] || o.All {
		for i := range b.content.Overrides {
			if before := &b.content.Overrides[i]; before.Key == o.Key && before.All == o.All && before.Bypass == o.Bypass {
				b.problems.Add(o.place("key"), "%s: override number %d is for the same: remove one of the two", o.Who, i+1)
				break
			}
		}
	}
	if len(b.content.Overrides) == rule.MaxOverrides {
		b.problems.Add(o.At, "%s: use at most %d overrides: remove those that have ended", o.Who, rule.MaxOverrides)
		return
	}
	b.content.Overrides = append(b.content.Overrides, o.Override)
}

// Bounds of the texts of an override, in bytes.
const (
	maxAuthor = 128
	maxReason = 1024
)

// place is where a field is stated, or else where o begins.
func (o *Override) place(name string) Mark {
	if at, ok := o.Stated[name]; ok {
		return at
	}
	return o.At
}

// check reports what is wrong with o by itself. Whether there is a rule that it
// changes is no mistake of the configuration: rules come and go under an override.
func (o *Override) check(p *strictyaml.Problems) {
	report := func(name, format string, args ...any) {
		if !o.Bad[name] {
			p.Add(o.place(name), "%s: %s", o.Who, fmt.Sprintf(format, args...))
		}
	}
	switch {
	case o.All && o.Key != "":
		report("all", "all: is for all rules, and key for one: remove one of the two")
	case !o.All && o.Key == "":
		report("key", `has no key: add key: "group:name", or all: true`)
	case !o.All && len(o.Key) > rule.MaxKeyLength:
		report("key", "key: has %d bytes: use 1 to %d", len(o.Key), rule.MaxKeyLength)
	case !o.All:
		if _, err := glob.Compile(o.Key); err != nil {
			report("key", "key: %v", err)
		}
	}
	o.checkAmount(report)
	if o.Until.IsZero() || o.Until.Year() > 9999 || o.Until.Year() < 1970 {
		report("until", "has no until: say when it ends, as in until: 2026-11-23T05:00:00Z")
	}
	for _, text := range []struct {
		name, value, remedy string
		most                int
	}{{"author", o.Author, "say who made it, as in author: ada", maxAuthor}, {"reason", o.Reason, "say why, as in reason: the sale", maxReason}} {
		switch {
		case strings.TrimSpace(text.value) == "":
			report(text.name, "has no %s: %s", text.name, text.remedy)
		case len(text.value) > text.most || strings.ContainsFunc(text.value, func(r rune) bool { return r < ' ' }):
			report(text.name, "%s: use one line of at most %d bytes", text.name, text.most)
		}
	}
}

// checkAmount reports what is wrong with what o puts in force.
func (o *Override) checkAmount(report func(name, format string, args ...any)) {
	_, stated := o.Stated["limit"]
	switch l := float64(o.Limit); {
	case !stated:
		report("limit", "has no limit: add limit: 2x, limit: 500/s or limit: bypass")
	case o.Bypass && (o.Factor != 0 || l != 0):
		report("limit", "limit: a bypass has no factor and no limit: remove them")
	case o.Bypass:
	case o.Factor != 0:
		if !(o.Factor >= rule.MinFactor && o.Factor <= rule.MaxFactor) || l != 0 {
			report("limit", "limit: the factor %s is out of range, or stands beside a limit: use %s to %s alone", quantity.Number(o.Factor), quantity.Number(rule.MinFactor), quantity.Number(rule.MaxFactor))
		}
	case o.All:
		report("limit", "limit: one limit for all rules makes no sense: use a factor, as in 2x, or bypass")
	case o.InFlight:
		checkSlots("limit", l, func(_, format string, args ...any) { report("limit", "limit: "+format, args...) })
	case !quantity.Finite(l) || l < 0 || l > rule.MaxLimit:
		report("limit", "limit: %s events/s is out of range: use 0/s to %s/s", quantity.Number(l), quantity.Number(rule.MaxLimit))
	case l > 0 && rule.LargestBurst(l) < 1:
		report("limit", "limit: %s events/s is so low that one token takes more than 10 years: use 0/s, or at least 1e-4/h", quantity.Number(l))
	}
}
