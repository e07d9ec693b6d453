// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/headgate/headgate/internal/sim/scenario/nodes"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// Bounds of generated traffic.
const (
	maxClients = 100_000
	maxOnOff   = 10_000 // sources
	maxTries   = 1000
)

// cost is what an event costs: costs, or {pareto: …}.
func (d decoder) cost(who string, to *traffic.Cost) func(ast.Node) {
	return func(n ast.Node) {
		switch n.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			d.All(n, who, nodes.Fields{"pareto": func(n ast.Node) { d.pareto(n, who+": pareto", to) }})
		default:
			d.costs(who, to)(n)
		}
	}
}

// pareto reads heavy-tailed costs.
func (d decoder) pareto(n ast.Node, who string, to *traffic.Cost) {
	most, mean, shape := 1, 1.0, 1.2
	seen := d.Mapping(n, who, nodes.Fields{
		"mean":  d.Number(who+": mean", &mean, 1, traffic.MaxCost),
		"most":  d.Integer(who+": most", &most, 1, traffic.MaxCost),
		"shape": d.Number(who+": shape", &shape, 0.1, 10),
	})
	switch {
	case seen == nil:
	case seen["mean"] == nil || seen["most"] == nil:
		d.Fail(n, "%s: has no mean or no most: add both", who)
	case mean >= float64(most):
		d.Fail(n, "%s: the mean is not below most: raise most", who)
	default:
		*to = traffic.Pareto(mean, int64(most), shape)
	}
}

// costs is a cost, or two with .. between them.
func (d decoder) costs(who string, to *traffic.Cost) func(ast.Node) {
	return d.Reader(who, func(text string) error {
		low, high, ok := strings.Cut(text, "..")
		if !ok {
			high = low
		}
		var ends [2]int64
		for i, part := range []string{low, high} {
			v, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
			if err != nil || v < 1 || v > traffic.MaxCost {
				return fmt.Errorf("is %.40q: write a whole number from 1 to %g, or two as in 1..10", text, float64(traffic.MaxCost))
			}
			ends[i] = v
		}
		*to = traffic.Cost{From: ends[0], To: ends[1]}
		if to.To < to.From {
			return fmt.Errorf("is %.40q: write the smaller one first", text)
		}
		return nil
	})
}

// onOff reads sources that are on and off in turn.
func (d decoder) onOff(n ast.Node, who string) traffic.OnOff {
	o := traffic.OnOff{Sources: 1, Shape: 1.4, On: time.Second, Off: time.Second}
	seen := d.Mapping(n, who, nodes.Fields{
		"sources": d.Integer(who+": sources", &o.Sources, 1, maxOnOff),
		"rate":    d.perSecond(who+": rate", &o.Rate),
		"on":      d.Duration(who+": on", &o.On, 10*time.Millisecond, time.Hour),
		"off":     d.Duration(who+": off", &o.Off, 10*time.Millisecond, time.Hour),
		"shape":   d.Number(who+": shape", &o.Shape, 1.05, 1.95),
	})
	for _, name := range []string{"rate", "on", "off"} {
		if seen != nil && seen[name] == nil {
			d.Fail(n, "%s: has no %s: add it", who, name)
		}
	}
	return o
}

// clients reads who the events come from.
func (d decoder) clients(n ast.Node, who string) *traffic.People {
	count, zipf, clump, gap := 1, 1.0, 1.0, 100*time.Millisecond
	seen := d.Mapping(n, who, nodes.Fields{
		"count": d.Integer(who+": count", &count, 1, maxClients),
		"zipf":  d.Number(who+": zipf", &zipf, 0, 5),
		"clump": d.Number(who+": clump", &clump, 1, 10_000),
		"gap":   d.Duration(who+": gap", &gap, 0, time.Hour),
	})
	if seen != nil && seen["count"] == nil {
		d.Fail(n, "%s: have no count: add how many there are", who)
	}
	return traffic.NewPeople(count, zipf, clump, gap)
}

// retry reads what clients do when they are rejected.
func (d decoder) retry(n ast.Node, who string) *traffic.Retry {
	t := &traffic.Retry{Factor: 2, Cap: 10 * time.Second, Jitter: 1, Tries: 5}
	seen := d.Mapping(n, who, nodes.Fields{
		"after":  d.Duration(who+": after", &t.After, time.Millisecond, time.Hour),
		"factor": d.Number(who+": factor", &t.Factor, 1, 100),
		"cap":    d.Duration(who+": cap", &t.Cap, time.Millisecond, time.Hour),
		"jitter": d.Part(who+": jitter", &t.Jitter),
		"tries":  d.Integer(who+": tries", &t.Tries, 2, maxTries),
	})
	if seen != nil && seen["after"] == nil {
		d.Fail(n, "%s: has no after: add how long a client waits before it tries again", who)
	}
	return t
}
