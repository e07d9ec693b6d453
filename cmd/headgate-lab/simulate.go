// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/simplot"
	"github.com/headgate/headgate/internal/sim/world"
)

// simulateFlags are those of `headgate-lab simulate`.
type simulateFlags struct {
	list, json, markdown, keys, users bool
	algorithms                        []string
	seed                              uint64
	seeds                             int
	plot                              string
}

func newSimulate() *cobra.Command {
	f := simulateFlags{}
	cmd := &cobra.Command{
		Use:   "simulate [NAME | FILE | GROUP] ...",
		Short: "Run a whole cluster on virtual time and compare it with one perfect bucket",
		Long: `simulate runs clusters of the shipped limiters, deciders and algorithms on virtual time,
over a network that loses, delays and cuts, and compares what they admit with what one
bucket of the same limit would have admitted, which sees every event.

  utilisation %    admitted ÷ admitted by the perfect bucket
  false rejects %  what that bucket admitted more, second by second ÷ offered
  over %           largest excess over limit · 10 s + burst in any 10 s ÷ limit · 10 s
  over later %     the same, without what follows a change within 10 s
  settle s         worst time from a change until it is close again
  reports, bytes   calls to owners and bytes on the network
  asks, waited %   calls that ask an owner, and decisions that waited for an answer
  p50, p99 ms      how long those waited

Scenarios come with it (--list) or in files: docs/scenarios.md says how to write
them, and docs/accuracy.md what exactly is measured. The same scenario, algorithm and
seed give the same figures, always.`,
		Example: `  headgate-lab simulate --list
  headgate-lab simulate cron --algorithm even,request-weighted,elastic
  headgate-lab simulate all --seeds 20                # the worst seed, and the median
  headgate-lab simulate flash-crowd --plot crowd.png
  headgate-lab simulate asking --users                # a group: accuracy, asking, or all
  headgate-lab simulate ./mine.yaml --json`,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return append(scenario.Names(), scenario.Accuracy, scenario.Asking, "all"), cobra.ShellCompDirectiveDefault
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.list, "list", false, "list the scenarios that come with it")
	flags.StringSliceVar(&f.algorithms, "algorithm", nil, "algorithms for all limits, one run each (default: as the scenario says)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of all chance; of several, the first")
	flags.IntVar(&f.seeds, "seeds", 1, "number of seeds, one run each")
	flags.BoolVar(&f.keys, "keys", false, "show each key by itself too")
	flags.BoolVar(&f.users, "users", false, "also show what callers experience: waits, fairness, rejections, saturation")
	flags.BoolVar(&f.json, "json", false, "print a JSON array with an object per key and run")
	flags.BoolVar(&f.markdown, "markdown", false, "print the table as Markdown")
	flags.StringVar(&f.plot, "plot", "", "draw the first seed into this `file`, .svg or .png; of several scenarios, one file each")
	return cmd
}

func (f simulateFlags) run(cmd *cobra.Command, args []string) error {
	if f.list {
		return listScenarios(cmd.OutOrStdout())
	}
	scenarios, err := f.scenarios(args)
	if err != nil {
		return err
	}
	if f.seeds < 1 || f.seeds > 10_000 {
		return fmt.Errorf("--seeds %d: take 1 to 10000", f.seeds)
	}
	if f.json && f.markdown {
		return fmt.Errorf("--json and --markdown: take one of them")
	}
	if err := simplot.CheckFile(f.plot); f.plot != "" && err != nil {
		return fmt.Errorf("--plot: %w", err)
	}
	jobs := f.jobs(scenarios)
	progress := newProgress(cmd.ErrOrStderr())
	results, err := world.Sweep(cmd.Context(), jobs, func(finished int) { progress(fmt.Sprintf("%d of %d runs", finished, len(jobs))) })
	progress("")
	if err != nil {
		return err
	}
	if f.plot != "" {
		if err := f.draw(scenarios, results); err != nil {
			return err
		}
	}
	return f.print(cmd.OutOrStdout(), results)
}

// print writes the figures, in one of three forms.
func (f simulateFlags) print(w io.Writer, results []*measure.Result) error {
	var rows []measure.Row
	for _, r := range results {
		rows = append(rows, r.Rows()...)
	}
	view := measure.View{Keys: f.keys, Users: f.users}
	view.Asks = slices.ContainsFunc(rows, func(r measure.Row) bool { return r.AsksPerHostS > 0 })
	switch {
	case f.json:
		text, err := measure.JSON(rows)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(w, string(text))
		return err
	case f.markdown:
		return measure.WriteMarkdown(w, measure.Groups(rows), view)
	}
	return measure.WriteTable(w, measure.Groups(rows), view)
}

// scenarios loads what args name.
func (f simulateFlags) scenarios(args []string) ([]*scenario.Scenario, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("simulate: name a scenario, a file, a group, or all; `headgate-lab simulate --list` lists them")
	}
	var all []*scenario.Scenario
	for _, arg := range args {
		names := []string{arg}
		switch arg {
		case "all":
			names = scenario.Names()
		case scenario.Accuracy, scenario.Asking:
			names = scenario.Names(arg)
		}
		for _, name := range names {
			if _, err := os.Stat(name); err == nil && !strings.ContainsRune(name, '/') && !slices.Contains(scenario.Names(), name) {
				name = "./" + name // a file, whatever its name ends in
			}
			sc, err := scenario.Load(name)
			if err != nil {
				return nil, fmt.Errorf("simulate: %w", err)
			}
			all = append(all, sc)
		}
	}
	return all, nil
}

// jobs are all runs: by scenario, algorithm and seed.
func (f simulateFlags) jobs(scenarios []*scenario.Scenario) []world.Job {
	algorithms := f.algorithms
	if len(algorithms) == 0 {
		algorithms = []string{""}
	}
	var jobs []world.Job
	for _, sc := range scenarios {
		for _, a := range algorithms {
			for s := range f.seeds {
				jobs = append(jobs, world.Job{Scenario: sc, Options: world.Options{
					Algorithm: strings.TrimSpace(a),
					Seed:      f.seed + uint64(s),
					Weights:   f.plot != "" && s == 0,
				}})
			}
		}
	}
	return jobs
}

// draw makes a picture per scenario, with a panel for each algorithm.
func (f simulateFlags) draw(scenarios []*scenario.Scenario, results []*measure.Result) error {
	each := len(results) / len(scenarios)
	for i, sc := range scenarios {
		var first []*measure.Result
		for j := 0; j < each; j += f.seeds {
			first = append(first, results[i*each+j])
		}
		file := f.plot
		if len(scenarios) > 1 {
			ext := filepath.Ext(file)
			file = strings.TrimSuffix(file, ext) + "-" + sc.Name + ext
		}
		if err := simplot.Save(file, sc, first); err != nil {
			return fmt.Errorf("simulate: draw %s: %w", file, err)
		}
	}
	return nil
}

func listScenarios(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, name := range scenario.Names() {
		sc, err := scenario.Load(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(t, "%s\t%s\n", name, sc.Description)
	}
	return t.Flush()
}

// newProgress writes on w how far something is, once it takes more than two seconds: every
// ten seconds, or on a terminal every second in one line, which "" wipes. The result is safe
// for concurrent use.
func newProgress(w io.Writer) func(text string) {
	file, isFile := w.(*os.File)
	live, often := false, 10*time.Second
	if isFile {
		info, err := file.Stat()
		live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if live {
		often = time.Second
	}
	var mu sync.Mutex // protects following fields
	began, last := time.Now(), time.Time{}
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()

		now := time.Now()
		switch {
		case text == "" && live && !last.IsZero():
			fmt.Fprint(w, "\r\033[K")
		case text == "" || now.Sub(began) < 2*time.Second || now.Sub(last) < often:
		case live:
			fmt.Fprintf(w, "\r%s\033[K", text)
			last = now
		default:
			fmt.Fprintln(w, text)
			last = now
		}
	}
}
