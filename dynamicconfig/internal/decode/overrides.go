// SPDX-License-Identifier: Apache-2.0

package decode

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/internal/build"
	"github.com/headgate/headgate/dynamicconfig/internal/message"
	"github.com/headgate/headgate/dynamicconfig/internal/strictyaml"
	"github.com/headgate/headgate/dynamicconfig/rule"
)

var knownOverride = []string{"all", "author", "key", "limit", "reason", "until"}

// overridesOf reads `overrides:`.
func (d *decoder) overridesOf(n ast.Node) {
	if n == nil {
		return
	}
	for i, item := range d.List(n, "overrides", "a list, each override beginning with - key:") {
		o := &build.Override{Who: fmt.Sprintf("override number %d", i+1), At: strictyaml.Place(item), Stated: make(map[string]build.Mark), Bad: make(map[string]bool)}
		fields, ok := d.Mapping(item, o.Who, knownOverride)
		if d.Exhausted() {
			return
		}
		if ok {
			d.overrideInto(o, fields)
			d.Override(o)
		}
	}
}

// overrideInto reads the fields of one override into o.
func (d *decoder) overrideInto(o *build.Override, fields []strictyaml.Field) {
	var limit, until string
	to := map[string]any{
		"all": &o.All, "limit": plain{&limit, "a factor, as in 2x, a limit, as in 500/s, or " + rule.Bypass},
		"until": plain{&until, "a time, as in 2026-11-23T05:00:00Z"}, "author": &o.Author, "reason": &o.Reason,
	}
	if n := strictyaml.Find(fields, "key"); n != nil { // first: it names the override
		o.Stated["key"] = strictyaml.Place(n)
		if o.Bad["key"] = !d.scalar(n, o.Who+": key", &o.Key); o.Key != "" {
			o.Who = o.Name()
		}
	}
	for _, f := range fields {
		if f.Name == "key" {
			continue
		}
		o.Stated[f.Name] = strictyaml.Place(f.Value)
		o.Bad[f.Name] = !d.scalar(f.Value, o.Who+": "+f.Name, to[f.Name])
	}
	refuse := func(name string, err error) {
		if err != nil && !o.Bad[name] {
			d.Add(o.Stated[name], "%s: %s: %v", o.Who, name, err)
			o.Bad[name] = true
		}
	}
	if _, ok := o.Stated["limit"]; ok && !o.Bad["limit"] {
		amount, err := rule.ParseOverride(limit)
		o.Factor, o.Limit, o.InFlight, o.Bypass = amount.Factor, amount.Limit, amount.InFlight, amount.Bypass
		refuse("limit", err)
	}
	if _, ok := o.Stated["until"]; ok && !o.Bad["until"] {
		var err error
		if o.Until, err = time.Parse(time.RFC3339, until); err != nil {
			err = fmt.Errorf("%s is not a time: write it as in 2026-11-23T05:00:00Z or 2026-11-23T06:00:00+01:00", message.Quote(until))
		}
		refuse("until", err)
	}
}
