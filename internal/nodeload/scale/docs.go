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
)

// table is one of docs/scale.md.
type table struct{ name, text string }

// write measures everything and writes the tables into o.docs.
func write(ctx context.Context, o options) error {
	file := filepath.Join(o.docs, "scale.md")
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: node\n", file)
	node, err := nodeTable(ctx, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: asks\n", file)
	asks, err := nodeload.Asks(ctx, o.asking)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: growth\n", file)
	g, err := nodeload.Grow(ctx, o.sizes)
	if err != nil {
		return err
	}
	text := string(before)
	for _, t := range append(growthTables(g), node, table{"asks", asks.AskTable()}, table{"gone", asks.GoneTable()}) {
		if text, err = markers.Replace(text, "make scale", t.name, t.text); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return os.WriteFile(file, []byte(text), 0o644)
}

// someRate is the decisions/s of a node that uses few of its keys in an interval.
const someRate = 5_000

// nodeTable is a whole node, with each key used in each interval, and not, under
// auto and under elastic.
func nodeTable(ctx context.Context, o options) (table, error) {
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
				return table{}, err
			}
			titles, results = append(titles, title), append(results, result)
		}
	}
	return table{"node", nodeload.NodeTable(titles, results)}, nil
}

func growthTables(g nodeload.Growth) []table {
	return []table{
		{"host", g.HostTable()},
		{"owner", g.OwnerTable()},
		{"ring", g.PeerTable()},
		{"call", g.CallTable()},
		{"paper", g.PaperTable()},
	}
}
