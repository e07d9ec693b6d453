// SPDX-License-Identifier: Apache-2.0

// Command scale measures what a whole node costs, and how its parts grow.
//
//	go run ./internal/nodeload/scale [-json] [-keys 100000] [-hosts 50]
//	go run ./internal/nodeload/scale -growth
//	go run ./internal/nodeload/scale -asks
//
// `make scale` is the same with -docs: it writes the tables of docs/scale.md
// anew. Each stands between two markers, and nothing else in the file changes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"

	"github.com/headgate/headgate/internal/nodeload"
	"github.com/headgate/headgate/internal/nodeload/asks"
	"github.com/headgate/headgate/internal/nodeload/growth"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := func() error {
		if len(os.Args) == 2 && os.Args[1] == "node" {
			return nodeload.Serve(ctx, os.Stdin, os.Stdout)
		}
		o, err := parse(os.Args[1:])
		if err != nil {
			return err
		}
		return run(ctx, o, os.Stdout)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	node   nodeload.Config
	sizes  growth.Sizes
	asking asks.Config
	json   bool
	asks   bool
	growth bool
	docs   string
	part   string
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	f.IntVar(&o.node.Hosts, "hosts", 50, "hosts of the cluster")
	f.IntVar(&o.node.Keys, "keys", 100_000, "keys in use on every host")
	f.Float64Var(&o.node.Rate, "rate", 0, "decisions/s of the node; 0: each key once an interval")
	f.DurationVar(&o.node.Interval, "interval", 0, "update_interval; 0: 3s")
	f.IntVar(&o.node.Warmup, "warmup", 0, "intervals that pass unmeasured; 0: 14")
	f.IntVar(&o.node.Intervals, "intervals", 10, "intervals that are measured")
	f.StringVar(&o.node.Algorithm, "algorithm", "", "of all keys; default that of rules")
	f.StringVar(&o.node.Profiles, "profiles", "", "folder for the node's profiles; default none")
	f.BoolVar(&o.json, "json", false, "write JSON")
	f.BoolVar(&o.growth, "growth", false, "measure how the parts grow, instead of a node")
	f.BoolVar(&o.asks, "asks", false, "measure how long decisions wait for the owner of their key, instead of a node")
	f.StringVar(&o.docs, "docs", "", "folder of scale.md, to write its tables anew")
	f.StringVar(&o.part, "part", "", "with -docs, only these tables: node, asks or growth")
	return o, f.Parse(args)
}

func run(ctx context.Context, o options, out io.Writer) error {
	switch {
	case o.docs != "":
		return write(ctx, o)
	case o.asks:
		c, err := asks.Measure(ctx, o.asking)
		if err != nil {
			return err
		}
		if o.json {
			return encode(out, c)
		}
		_, err = fmt.Fprintf(out, "%s\n%s", c.Table(), c.GoneTable())
		return err
	case o.growth:
		g, err := growth.Measure(ctx, o.sizes)
		if err != nil {
			return err
		}
		if o.json {
			return encode(out, g)
		}
		for _, t := range growthTables(g) {
			fmt.Fprintf(out, "%s\n%s\n", t.name, t.text)
		}
		return nil
	}
	result, err := nodeload.Run(ctx, o.node, self)
	if err != nil {
		return err
	}
	if o.json {
		return encode(out, result)
	}
	return result.WriteTable(out)
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// self is this very program as the node under test.
func self(ctx context.Context) *exec.Cmd {
	program, err := os.Executable()
	if err != nil {
		program = os.Args[0]
	}
	return exec.CommandContext(ctx, program, "node")
}
