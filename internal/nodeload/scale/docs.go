// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/markers"
	"github.com/headgate/headgate/internal/nodeload"
	"github.com/headgate/headgate/internal/nodeload/asks"
	"github.com/headgate/headgate/internal/nodeload/growth"
)

// table is one of docs/scale.md.
type table struct{ name, text string }

// parts are what -part may name, in the order in which they are measured.
var parts = []struct {
	name    string
	measure func(ctx context.Context, o options) ([]table, error)
}{{"node", nodeTables}, {"asks", askTables}, {"growth", growthTablesOf}}

// write measures o.part, or all, and writes the tables into o.docs.
func write(ctx context.Context, o options) error {
	file := filepath.Join(o.docs, "scale.md")
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, found := string(before), false
	for _, part := range parts {
		if o.part != "" && o.part != part.name {
			continue
		}
		found = true
		fmt.Fprintf(os.Stderr, "%s: %s\n", file, part.name)
		tables, err := part.measure(ctx, o)
		if err != nil {
			return err
		}
		for _, t := range tables {
			if text, err = markers.Replace(text, "make scale", t.name, t.text); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	if !found {
		return fmt.Errorf("there is no part %q: use node, asks or growth", o.part)
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// someRate is the decisions/s of a node that uses few of its keys in an interval.
const someRate = 5_000

// nodeTables is a whole node, with each key used in each interval, and not, under
// auto and under elastic.
func nodeTables(ctx context.Context, o options) ([]table, error) {
	var titles []string
	var results []nodeload.Result
	for _, some := range []bool{false, true} {
		for _, name := range []string{algorithm.NameAuto, algorithm.NameElastic} {
			c, title := o.node, "each key in each interval"
			if c.Algorithm = name; some {
				c.Rate, title = someRate, "5,000 decisions/s"
			}
			result, err := nodeload.Run(ctx, c, self)
			if err != nil {
				return nil, err
			}
			titles, results = append(titles, title), append(results, result)
		}
	}
	return []table{{"node", nodeload.NodeTable(titles, results)}}, nil
}

// askTables is how long decisions wait for an owner, and without one.
func askTables(ctx context.Context, o options) ([]table, error) {
	c, err := asks.Measure(ctx, o.asking)
	return []table{{"asks", c.Table()}, {"gone", c.GoneTable()}}, err
}

// growthTablesOf is what the parts cost.
func growthTablesOf(ctx context.Context, o options) ([]table, error) {
	g, err := growth.Measure(ctx, o.sizes)
	return growthTables(g), err
}

func growthTables(g growth.Costs) []table {
	return []table{
		{"host", g.HostTable()},
		{"owner", g.OwnerTable()},
		{"ring", g.PeerTable()},
		{"call", g.CallTable()},
		{"paper", g.PaperTable()},
	}
}
