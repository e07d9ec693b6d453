// SPDX-License-Identifier: Apache-2.0

package dynamicconfig

import (
	"fmt"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/glob"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/quantity"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

var knownOverride = []string{"all", "author", "key", "limit", "reason", "until"}

// statedOverride is an Override before it is checked.
type statedOverride struct {
	Override

	who    string
	at     mark            // where it begins
	fields map[string]mark // what is stated
	bad    map[string]bool // of it, what was reported already
}

// overridesOf reads `overrides:`.
func (d *decoder) overridesOf(n ast.Node) {
	if n == nil {
		return
	}
	for i, item := range d.List(n, "overrides", "a list, each override beginning with - key:") {
		o := &statedOverride{who: fmt.Sprintf("override number %d", i+1), at: strictyaml.Place(item), fields: make(map[string]mark), bad: make(map[string]bool)}
		fields, ok := d.Mapping(item, o.who, knownOverride)
		if d.Exhausted() {
			return
		}
		if ok {
			d.overrideInto(o, fields)
			d.override(o)
		}
	}
}

// overrideInto reads the fields of one override into o.
func (d *decoder) overrideInto(o *statedOverride, fields []strictyaml.Field) {
	var limit, until string
	to := map[string]any{
		"all": &o.All, "limit": plain{&limit, "a factor, as in 2x, a limit, as in 500/s, or " + rule.Bypass},
		"until": plain{&until, "a time, as in 2026-11-23T05:00:00Z"}, "author": &o.Author, "reason": &o.Reason,
	}
	if n := strictyaml.Find(fields, "key"); n != nil { // first: it names the override
		o.fields["key"] = strictyaml.Place(n)
		if o.bad["key"] = !d.scalar(n, o.who+": key", &o.Key); o.Key != "" {
			o.who = o.Name()
		}
	}
	for _, f := range fields {
		if f.Name == "key" {
			continue
		}
		o.fields[f.Name] = strictyaml.Place(f.Value)
		o.bad[f.Name] = !d.scalar(f.Value, o.who+": "+f.Name, to[f.Name])
	}
	refuse := func(name string, err error) {
		if err != nil && !o.bad[name] {
			d.add(o.fields[name], "%s: %s: %v", o.who, name, err)
			o.bad[name] = true
		}
	}
	if _, ok := o.fields["limit"]; ok && !o.bad["limit"] {
		amount, err := rule.ParseOverride(limit)
		o.Factor, o.Limit, o.InFlight, o.Bypass = amount.Factor, amount.Limit, amount.InFlight, amount.Bypass
		refuse("limit", err)
	}
	if _, ok := o.fields["until"]; ok && !o.bad["until"] {
		var err error
		if o.Until, err = time.Parse(time.RFC3339, until); err != nil {
			err = fmt.Errorf("%s is not a time: write it as in 2026-11-23T05:00:00Z or 2026-11-23T06:00:00+01:00", message.Quote(until))
		}
		refuse("until", err)
	}
}

// override takes the next override.
func (b *builder) override(o *statedOverride) {
	b.checkOverride(o)
	if o.Key != "" && !o.bad["key"] || o.All {
		for i := range b.snapshot.overrides {
			if before := &b.snapshot.overrides[i]; before.Key == o.Key && before.All == o.All {
				b.add(o.place("key"), "%s: override number %d is for the same: remove one of the two", o.who, i+1)
				break
			}
		}
	}
	if len(b.snapshot.overrides) == rule.MaxOverrides {
		b.add(o.at, "%s: use at most %d overrides: remove those that have ended", o.who, rule.MaxOverrides)
		return
	}
	b.snapshot.overrides = append(b.snapshot.overrides, o.Override)
}

// Bounds of the texts of an override, in bytes.
const (
	maxAuthor = 128
	maxReason = 1024
)

// place is where a field is stated, or else where o begins.
func (o *statedOverride) place(name string) mark {
	if at, ok := o.fields[name]; ok {
		return at
	}
	return o.at
}

// checkOverride reports what is wrong with o by itself. Whether there is a rule that it
// changes is no mistake of the configuration: rules come and go under an override.
func (b *builder) checkOverride(o *statedOverride) {
	report := func(name, format string, args ...any) {
		if !o.bad[name] {
			b.add(o.place(name), "%s: %s", o.who, fmt.Sprintf(format, args...))
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
	b.checkAmount(o, report)
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
func (b *builder) checkAmount(o *statedOverride, report func(name, format string, args ...any)) {
	_, stated := o.fields["limit"]
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
