// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/internal/sim/scenario/nodes"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// traffic reads the sources.
func (d decoder) traffic(n ast.Node, sc *Scenario) {
	d.List(n, "traffic", func(i int, n ast.Node) {
		who := fmt.Sprintf("source number %d", i+1)
		s := Source{Cost: traffic.One}
		s.Hosts, _ = selection("all", sc)
		rate := func(total bool) func(ast.Node) {
			return func(n ast.Node) { s.Rate, s.Total = d.rate(n, who), total }
		}
		seen := d.Mapping(n, who, nodes.Fields{
			"key":    d.Str(who+": key", &s.Key),
			"hosts":  d.hosts(who+": hosts", &s.Hosts, sc),
			"rate":   rate(false),
			"total":  rate(true),
			"bursts": func(n ast.Node) { s.Bursts = d.bursts(n, who, sc) },
			"spread": d.Choice(who+": spread", spreads, func(w string) { s.Spread = Spread(slices.Index(spreads, w)) }),
			"arrivals": d.Choice(who+": arrivals", []string{"even", "poisson"}, func(w string) {
				s.Even = w == "even"
			}),
			"cost":    d.cost(who+": cost", &s.Cost),
			"stay":    d.Boolean(who+": stay", &s.Stay),
			"clients": func(n ast.Node) { s.Clients = d.clients(n, who+": clients") },
			"retry":   func(n ast.Node) { s.Retry = d.retry(n, who+": retry") },
		})
		if seen == nil {
			return
		}
		given := 0
		for _, name := range []string{"rate", "total", "bursts"} {
			if seen[name] != nil {
				given++
			}
		}
		switch {
		case given != 1:
			d.Fail(n, "%s: needs one of rate (of each host), total (of all together) and bursts", who)
		case s.Spread != SpreadEven && !s.Total:
			d.Fail(seen["spread"], "%s: spread is about a total: write total instead of rate or bursts", who)
		case len(s.Hosts.Fixed) > 0 && s.Hosts.Fixed[len(s.Hosts.Fixed)-1] >= len(sc.Hosts):
			d.Fail(seen["hosts"], "%s: owners that only decide have no traffic: name other hosts", who)
		}
		if s.Spread == SpreadSticky && s.Clients == nil {
			d.Fail(seen["spread"], "%s: spread is sticky and there are no clients: add clients", who)
		}
		if s.Key == "" {
			d.Fail(n, "%s: has no key: add the key that its events use", who)
		} else if _, ok := sc.Limits.Match(s.KeyOf(0)); !ok {
			d.Fail(seen["key"], "%s: no rule matches the key %q: add one to limits", who, s.Key)
		}
		sc.Sources = append(sc.Sources, s)
	})
}

// spreads are the words for Spread, in its order.
var spreads = []string{"even", "random", "sticky"}

// rate reads a rate function: a constant, or a map with its name.
func (d decoder) rate(n ast.Node, who string) (r traffic.Rate) {
	r = traffic.Constant(0)
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
	default:
		var v float64
		d.perSecond(who+": rate", &v)(n)
		return traffic.Constant(v)
	}
	seen := d.Mapping(n, who+": rate", nodes.Fields{
		"steps": func(n ast.Node) { r = d.steps(n, who+": steps") },
		"ramp": func(n ast.Node) {
			p := traffic.Ramp{}
			d.All(n, who+": ramp", nodes.Fields{
				"from": d.perSecond("from", &p.From),
				"to":   d.perSecond("to", &p.To),
				"at":   d.Duration("at", &p.At, 0, traffic.MaxDuration),
				"for":  d.Duration("for", &p.For, time.Millisecond, traffic.MaxDuration),
			})
			r = p
		},
		"sine": func(n ast.Node) {
			s := traffic.Sine{}
			seen := d.Mapping(n, who+": sine", nodes.Fields{
				"mean":      d.perSecond("mean", &s.Mean),
				"amplitude": d.perSecond("amplitude", &s.Amplitude),
				"period":    d.Duration("period", &s.Period, 100*time.Millisecond, traffic.MaxDuration),
				"phase":     d.Duration("phase", &s.Phase, 0, traffic.MaxDuration),
			})
			if seen["period"] == nil {
				d.Fail(n, "%s: sine: has no period: add it", who)
			}
			r = s
		},
		"onoff": func(n ast.Node) { r = d.onOff(n, who+": onoff") },
		"walk": func(n ast.Node) {
			w := traffic.Walk{}
			d.All(n, who+": walk", nodes.Fields{
				"start": d.perSecond("start", &w.Start),
				"step":  d.Part("step", &w.Step),
				"every": d.Duration("every", &w.Every, 10*time.Millisecond, traffic.MaxDuration),
			})
			r = w
		},
	})
	if seen != nil && len(seen) != 1 {
		d.Fail(n, "%s: rate: write one of steps, ramp, sine, onoff and walk", who)
	}
	return r
}

// steps are a map from times to rates.
func (d decoder) steps(n ast.Node, who string) (steps traffic.Steps) {
	values, ok := nodes.Pairs(n)
	if !ok {
		d.Fail(n, "%s: is no map: write {0s: 10/s, 60s: 100/s}", who)
		return nil
	}
	for _, v := range values {
		at, err := nodes.ParseDuration(v.Key.GetToken().Value, 0, traffic.MaxDuration)
		if err != nil {
			d.Fail(v.Key, "%s: %v", who, err)
			return nil
		}
		var rate float64
		d.perSecond(who, &rate)(v.Value)
		if len(steps) > 0 && steps[len(steps)-1].At >= at {
			d.Fail(v.Key, "%s: %s is not later than the step before: sort them by time", who, at)
			return nil
		}
		steps = append(steps, traffic.Step{At: at, Rate: rate})
	}
	return steps
}

func (d decoder) bursts(n ast.Node, who string, sc *Scenario) *traffic.Bursts {
	who += ": bursts"
	b := &traffic.Bursts{Hosts: 1}
	seen := d.Mapping(n, who, nodes.Fields{
		"rate":  d.perSecond(who+": rate", &b.Rate),
		"every": d.Span(who+": every", &b.Every, 10*time.Millisecond, traffic.MaxDuration),
		"for":   d.Duration(who+": for", &b.For, time.Millisecond, traffic.MaxDuration),
		"from":  d.Duration(who+": from", &b.From, 0, traffic.MaxDuration),
		"on": d.Reader(who+": on", func(text string) error {
			word, count, _ := strings.Cut(text, " ")
			n, err := strconv.Atoi(strings.TrimSpace(count))
			if word != "random" && word != "next" || err != nil || n < 1 || n > len(sc.Hosts) {
				return fmt.Errorf("is %.40q: write random 1 or next 1, up to the number of hosts", text)
			}
			b.Hosts, b.Next = n, word == "next"
			return nil
		}),
		"mark": d.Str(who+": mark", &b.Mark),
	})
	for _, name := range []string{"rate", "every", "for"} {
		if seen != nil && seen[name] == nil {
			d.Fail(n, "%s: has no %s: add it", who, name)
		}
	}
	if b.Every.From > 0 && float64(sc.Duration)/float64(b.Every.From)*float64(b.Hosts) > traffic.MaxBursts {
		d.Fail(n, "%s: are too many: raise every", who)
	}
	return b
}
