// SPDX-License-Identifier: Apache-2.0

// Command simdocs writes the tables and the pictures of docs/accuracy.md anew.
// It is what `make sim` runs:
//
//	go run ./internal/sim/simdocs [-seeds 20] [-dir docs] [-only exact,auto] [-part asking]
//
// Each table stands between two markers, and nothing else in the file changes.
// With -only, no more than the rows of these algorithms do. With -part, no more
// than this table or, as pictures, the pictures; asking has a picture of its own.
// Out of scope: the words around it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/headgate/headgate/internal/markers"
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/simplot"
	"github.com/headgate/headgate/internal/sim/simredis"
	"github.com/headgate/headgate/internal/sim/world"
	"github.com/headgate/headgate/limiter/mesh"
)

var algorithms = []string{"even", "request-weighted", "request-weighted-even-floor", "elastic", "gossip", "exact", "auto", simredis.Name}

// longGossip are scenarios in which hosts would tell each other too much: the
// messages grow with the square of the hosts. One seed of the first takes a
// minute and a half, and of the second an hour.
var longGossip = []string{"day-and-night", "thousand-hosts"}

// inRedis are those that are measured with a real Redis, which each event is a
// call of: others would only take longer.
var inRedis = []string{"burst-on-few", "cron", "low-limit", "near-zero-traffic", "owner-crash", "steady-skew"}

// inTrees are those that trees of clusters are measured with: even and the even
// floor would need to know of all hosts in the tree.
var inTrees = []string{"proportional-share", "fair-share", "elastic"}

// pictures say which algorithms a scenario's picture shows.
var pictures = []struct {
	scenario   string
	algorithms []string
}{
	{"steady-skew", []string{"even", "auto"}},
	{"moving-hotspot", []string{"request-weighted", "auto"}},
	{"burst-on-few", []string{"request-weighted", "auto"}},
	{"flash-crowd", []string{"request-weighted", "auto"}},
	{"owner-crash", []string{"request-weighted", "auto"}},
	{"partition", []string{"request-weighted", "auto"}},
}

// command is in the markers of the tables.
const command = "make sim"

func main() {
	seeds := flag.Int("seeds", 20, "seeds of each scenario and algorithm")
	dir := flag.String("dir", "docs", "folder of accuracy.md")
	only := flag.String("only", "", "algorithms whose rows alone are written anew; default all rows, tables and pictures")
	part := flag.String("part", "", "what alone to write: "+strings.Join(parts, ", ")+"; default all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := write(ctx, *dir, *seeds, *only, *part); err != nil {
		fmt.Fprintln(os.Stderr, "simdocs:", err)
		os.Exit(1)
	}
}

// parts are what may be written alone.
var parts = []string{"summary", "asking", "table", "ablation", "pictures"}

func write(ctx context.Context, dir string, seeds int, only, part string) error {
	if part != "" && !slices.Contains(parts, part) {
		return fmt.Errorf("there is no part %q: use one of %s", part, strings.Join(parts, ", "))
	}
	wanted := func(name string) bool { return part == "" || part == name }
	file := filepath.Join(dir, "accuracy.md")
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(before)
	chosen := func(algorithm string) bool {
		return only == "" || slices.Contains(strings.Split(only, ","), algorithm)
	}
	var asked []measure.Group
	for _, t := range []struct {
		name  string
		write func(context.Context, int, func(algorithm string) bool) (string, error)
	}{
		{"summary", summary},
		{"asking", func(ctx context.Context, seeds int, chosen func(algorithm string) bool) (_ string, err error) {
			if asked, err = asking(ctx, seeds, chosen); err != nil {
				return "", err
			}
			return markdown(asked, askingView)
		}},
		{"table", table},
		{"ablation", ablation},
	} {
		if !wanted(t.name) || only != "" && t.name == "ablation" {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", file, t.name)
		next, err := t.write(ctx, seeds, chosen)
		if err != nil {
			return err
		}
		if only != "" {
			old, err := markers.Find(text, command, t.name)
			if err != nil {
				return err
			}
			next = merge(old, next, t.name != "summary")
		}
		if text, err = markers.Replace(text, command, t.name, next); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	if only != "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(dir, "img"), 0o755); err != nil {
		return err
	}
	if wanted("asking") {
		if err := drawAsking(dir, seeds, asked); err != nil {
			return err
		}
	}
	if !wanted("pictures") {
		return nil
	}
	for _, p := range pictures {
		if err := draw(ctx, dir, p.scenario, p.algorithms); err != nil {
			return err
		}
	}
	return nil
}

// table is all scenarios with all algorithms, as Markdown.
func table(ctx context.Context, seeds int, chosen func(algorithm string) bool) (string, error) {
	var jobs []world.Job
	var server *simredis.Server
	if chosen(simredis.Name) {
		var err error
		if server, err = simredis.Start(ctx); err != nil {
			return "", err
		}
		defer server.Stop()
	}
	for _, name := range scenario.Names(scenario.Accuracy) {
		sc, err := scenario.Load(name)
		if err != nil {
			return "", err
		}
		these := algorithms
		if sc.Clusters != nil {
			these = inTrees
		}
		for _, a := range these {
			if !chosen(a) || a == mesh.Name && slices.Contains(longGossip, name) || a == simredis.Name && !slices.Contains(inRedis, name) {
				continue
			}
			for seed := range seeds {
				o := world.Options{Algorithm: a, Seed: uint64(seed + 1)}
				if a == simredis.Name {
					o.Elsewhere = server.Elsewhere()
				}
				jobs = append(jobs, world.Job{Scenario: sc, Options: o})
			}
		}
	}
	results, err := world.Sweep(ctx, jobs, func(finished int) {
		if finished%100 == 0 {
			fmt.Fprintf(os.Stderr, "%d of %d runs\n", finished, len(jobs))
		}
	})
	if err != nil {
		return "", err
	}
	return markdown(measure.Groups(rows(results)), measure.View{Calls: true})
}

// rows are those of results.
func rows(results []*measure.Result) []measure.Row {
	var all []measure.Row
	for _, r := range results {
		all = append(all, r.Rows()...)
	}
	return all
}

// markdown is a view of groups.
func markdown(groups []measure.Group, v measure.View) (string, error) {
	var b strings.Builder
	err := measure.WriteMarkdown(&b, groups, v)
	return b.String(), err
}

func draw(ctx context.Context, dir, name string, algorithms []string) error {
	sc, err := scenario.Load(name)
	if err != nil {
		return err
	}
	var results []*measure.Result
	for _, a := range algorithms {
		r, err := world.Options{Algorithm: a, Seed: 1, Weights: true}.Run(ctx, sc)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	return simplot.Save(filepath.Join(dir, "img", "sim-"+name+".png"), sc, results)
}
