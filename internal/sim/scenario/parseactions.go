// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/internal/sim/scenario/nodes"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// actionFields says which fields each action may have, besides at and mark.
var actionFields = map[string][]string{
	"crash":      {"hosts", "for", "every"},
	"restart":    {"hosts", "for", "every"},
	"leave":      {"hosts", "for", "every"},
	"join":       {"hosts", "every"},
	"pause":      {"hosts", "for", "every", "traffic"},
	"partition":  {"hosts", "for", "from", "direction"},
	"heal":       {},
	"slow":       {"hosts", "for", "by"},
	"clock_step": {"hosts", "by"},
	"limit":      {"key", "limit", "burst"},
	"algorithm":  {"key", "algorithm"},
	"override":   {"key", "factor", "for"},
	"drain":      {"hosts", "for", "every"},
	"autoscale":  {"hosts", "every", "target"},
	"spike":      {"hosts", "to", "add"},
	"mishaps":    {"every", "add", "odds", "away"},
}

// needs are the fields without which an action makes no sense.
var needs = map[string][]string{
	"crash": {"hosts"}, "restart": {"hosts", "for"}, "leave": {"hosts"}, "join": {"hosts"},
	"pause": {"hosts", "for"}, "partition": {"hosts"}, "slow": {"hosts", "by"},
	"clock_step": {"hosts", "by"}, "limit": {"key", "limit"},
	"algorithm": {"key", "algorithm"}, "override": {"key", "factor", "for"},
	"drain": {"hosts"}, "autoscale": {"hosts", "every", "target"},
	"spike": {"hosts"}, "mishaps": {"every", "add", "odds", "away"},
}

// actions reads the events.
func (d decoder) actions(n ast.Node, sc *Scenario) {
	d.List(n, "events", func(i int, n ast.Node) {
		who := fmt.Sprintf("event number %d", i+1)
		a := Action{Direction: "both"}
		by := func(n ast.Node) {
			d.Duration(who+": by", &a.By, -traffic.MaxDuration, traffic.MaxDuration)(n)
		}
		seen := d.Mapping(n, who, nodes.Fields{
			"at":    d.Duration(who+": at", &a.At, 0, traffic.MaxDuration),
			"do":    d.Str(who+": do", &a.Do),
			"mark":  d.Str(who+": mark", &a.Mark),
			"hosts": d.hosts(who+": hosts", &a.Hosts, sc),
			"for":   d.Duration(who+": for", &a.For, time.Millisecond, traffic.MaxDuration),
			"every": d.Duration(who+": every", &a.Every, time.Millisecond, traffic.MaxDuration),
			"from":  d.hosts(who+": from", &a.From, sc),
			"direction": d.Choice(who+": direction", []string{"both", "in", "out"}, func(w string) {
				a.Direction = w
			}),
			"by": by,
			"traffic": d.Choice(who+": traffic", []string{"waits", "elsewhere"}, func(w string) {
				a.Elsewhere = w == "elsewhere"
			}),
			"to":        d.perSecond(who+": to", &a.To),
			"add":       d.perSecond(who+": add", &a.Add),
			"target":    d.perSecond(who+": target", &a.Target),
			"away":      d.Span(who+": away", &a.Away, 0, traffic.MaxDuration),
			"odds":      odds(d, who+": odds", &a.Odds),
			"key":       d.Str(who+": key", &a.Key),
			"algorithm": d.Str(who+": algorithm", &a.Algorithm),
			"factor": d.Reader(who+": factor", func(text string) (err error) {
				a.Factor, err = strconv.ParseFloat(strings.TrimSuffix(text, "x"), 64)
				if err != nil || !(a.Factor > 0 && a.Factor <= rule.MaxFactor) {
					return fmt.Errorf("is %.40q: write a number above 0, as 2x", text)
				}
				return nil
			}),
			"limit": d.perSecond(who+": limit", &a.Limit),
			"burst": d.Reader(who+": burst", func(text string) (err error) {
				a.Burst, err = strconv.ParseFloat(text, 64)
				if err != nil || !(a.Burst >= 1 && a.Burst <= traffic.MaxCost) {
					return fmt.Errorf("is %.40q: write a number from 1 to %g", text, float64(traffic.MaxCost))
				}
				return nil
			}),
		})
		if seen == nil {
			return
		}
		d.action(n, who, &a, seen, sc)
		sc.Steps = append(sc.Steps, a)
	})
	slices.SortStableFunc(sc.Steps, func(a, b Action) int { return int(min(max(a.At-b.At, -1), 1)) })
}

// action checks what one event says.
func (d decoder) action(n ast.Node, who string, a *Action, seen map[string]ast.Node, sc *Scenario) {
	if seen["at"] == nil {
		d.Fail(n, "%s: has no at: add when it happens", who)
	}
	if a.At >= sc.Duration {
		d.Fail(n, "%s: at %s is after the end of the scenario at %s", who, a.At, sc.Duration)
	}
	may, ok := actionFields[a.Do]
	switch {
	case seen["do"] == nil && a.Mark == "":
		d.Fail(n, "%s: has neither do nor mark: add one", who)
	case seen["do"] != nil && !ok:
		d.Fail(seen["do"], "%s: there is no %.40q: known are %s", who, a.Do, strings.Join(actionNames(), ", "))
		return
	}
	for _, name := range slices.Sorted(keysOf(seen)) {
		if name != "at" && name != "do" && name != "mark" && !slices.Contains(may, name) {
			d.Fail(seen[name], "%s: %s has no %s: remove it", who, a.Do, name)
		}
	}
	for _, name := range needs[a.Do] {
		if seen[name] == nil {
			d.Fail(n, "%s: %s has no %s: add it", who, a.Do, name)
		}
	}
	if a.Do == "slow" && a.By < 0 {
		d.Fail(n, "%s: by is negative: slow takes a delay", who)
	}
	if a.Do == "spike" && (seen["to"] == nil) == (seen["add"] == nil) {
		d.Fail(n, "%s: spike needs one of to (the rate) and add (how much more)", who)
	}
	if a.Do == "autoscale" && (a.Target == 0 || a.Every < time.Second) {
		d.Fail(n, "%s: autoscale needs a target above 0/s, and every of 1s or more", who)
	}
	if most := traffic.MaxBursts; a.Do == "mishaps" && a.Every > 0 && float64(sc.Duration)/float64(a.Every) > most {
		d.Fail(n, "%s: are too many: raise every", who)
	}
	if a.Do == "spike" || a.Do == "mishaps" {
		for _, s := range sc.Sources {
			if _, ok := s.Rate.(traffic.Walk); !ok || s.Spread != SpreadEven || s.Total {
				d.Fail(n, "%s: %s is for rates that walk: write walk in traffic", who, a.Do)
				break
			}
		}
	}
	if err := a.checkRules(sc.Limits); err != nil {
		d.Fail(n, "%s: %v", who, err)
	}
}

func keysOf(m map[string]ast.Node) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}

func actionNames() []string {
	var names []string
	for name := range actionFields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// odds are how likely each mishap is, in parts.
func odds(d decoder, who string, to *[3]int) func(ast.Node) {
	return func(n ast.Node) {
		known := make(nodes.Fields)
		for i, name := range mishapNames {
			known[name] = d.Integer(who+": "+name, &to[i], 0, 1000)
		}
		if d.Mapping(n, who, known) != nil && to[0]+to[1]+to[2] == 0 {
			d.Fail(n, "%s: nothing is likely: write {spike: 10, lose: 4, elect: 1}", who)
		}
	}
}
