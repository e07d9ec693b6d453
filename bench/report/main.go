// SPDX-License-Identifier: Apache-2.0

// Command report runs the benchmarks of package bench and prints one table of
// medians and ratios. It writes the goals into docs/performance.md, and the whole
// table into docs/performance-all.md. It is what `make bench` runs:
//
//	go run ./report [-count 6] [-bench Decision] [-quick]
//
// Each round runs all benchmarks once, so that what is compared is never far
// apart in time, and the machine's moods meet all alike. With -bench, -quick or
// -from nothing is written. Out of scope: the words around the tables.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate/internal/markers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// enough rounds give a median bounds of 95%.
const enough = 6

// options are the flags.
type options struct {
	bench string
	count int
	time  time.Duration
	pairs int
	quick bool
	short bool // tiny sizes, for tests of this program
	from  string
	save  string
	doc   string
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("report", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.bench, "bench", ".", "regular expression of the benchmarks to run")
	f.IntVar(&o.count, "count", enough, "rounds; with fewer than 6 a median has no bounds")
	f.DurationVar(&o.time, "time", 300*time.Millisecond, "how long each benchmark runs in a round")
	f.IntVar(&o.pairs, "pairs", 10_000_000, "the most pairs of key and host at one decider; each takes about 100 bytes")
	f.BoolVar(&o.quick, "quick", false, "one short round with at most 1,000,000 pairs: to see that it runs, not to compare")
	f.StringVar(&o.from, "from", "", "read the output of an earlier run from this file, and run nothing")
	f.StringVar(&o.save, "save", "", "keep the output of go test in this file, for benchstat or -from")
	f.StringVar(&o.doc, "doc", "../docs/performance.md", "the page to write the goals into, and all figures beside it; empty: none")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.quick {
		o.count, o.time, o.pairs = 1, 5*time.Millisecond, min(o.pairs, 1_000_000)
	}
	if o.quick || o.bench != "." || o.from != "" {
		o.doc = ""
	}
	if o.count < 1 {
		return o, fmt.Errorf("-count is %d; it must be at least 1", o.count)
	}
	return o, nil
}

// run is main without the process. It is run in the folder of package bench.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	var output []byte
	if o.from != "" {
		output, err = os.ReadFile(o.from)
	} else {
		output, err = o.measure(ctx, stderr)
	}
	if err != nil {
		return err
	}
	if o.save != "" {
		if err := os.WriteFile(o.save, output, 0o644); err != nil {
			return err
		}
	}
	r, err := read(bytes.NewReader(output))
	if err != nil {
		return err
	}
	table, goals := r.table(), r.goals()
	fmt.Fprint(stdout, table)
	if o.bench == "." {
		fmt.Fprint(stdout, "\n", goals)
	}
	if o.doc == "" {
		return nil
	}
	machine := o.machine(r)
	all := fmt.Sprintf("# All figures of make bench\n\n%s\n%s", machine, table)
	if err := os.WriteFile(beside(o.doc), []byte(all), 0o644); err != nil {
		return err
	}
	return rewrite(o.doc, map[string]string{"goals": goals, "machine": machine})
}

// measure builds the benchmarks, runs them round by round, and returns what
// they wrote. A run that fails is an error.
func (o options) measure(ctx context.Context, stderr io.Writer) ([]byte, error) {
	dir, err := os.MkdirTemp("", "headgate-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)

	program := filepath.Join(dir, "bench.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, ".")
	build.Stdout, build.Stderr = stderr, stderr
	fmt.Fprintln(stderr, "building; the first time this takes a minute or two")
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build the benchmarks: %w", err)
	}
	var all bytes.Buffer
	for round := range o.count {
		began := time.Now()
		cmd := exec.CommandContext(ctx, program,
			"-test.run=^$", "-test.benchmem", "-test.bench="+o.bench, "-test.benchtime="+o.time.String(),
			"-test.cpu=2", "-test.timeout=0", "-pairs="+strconv.Itoa(o.pairs), "-test.short="+strconv.FormatBool(o.short))
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("round %d: %w\n%s", round+1, err, output.Bytes())
		}
		all.Write(output.Bytes())
		fmt.Fprintf(stderr, "round %d of %d took %v\n", round+1, o.count, time.Since(began).Round(time.Second))
	}
	return all.Bytes(), nil
}

// machine is what the figures depend on.
func (o options) machine(r *results) string {
	cpu := r.cpu
	if cpu == "" {
		cpu = "unknown CPU"
	}
	command := "make bench"
	if o.count != enough {
		command += " COUNT=" + strconv.Itoa(o.count)
	}
	if o.pairs != 10_000_000 {
		command += " PAIRS=" + strconv.Itoa(o.pairs)
	}
	text := fmt.Sprintf("%s, %d cores, %s %s/%s, %s. Command: `%s` (%d rounds of %v for each benchmark).\n",
		cpu, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
		time.Now().UTC().Format(time.DateOnly), command, o.count, o.time)
	if o.count < enough {
		text += "**Too few rounds to compare by**: times may be far off.\n"
	}
	return text
}

// beside is the file for all figures, next to the page doc. It is not committed.
func beside(doc string) string { return strings.TrimSuffix(doc, ".md") + "-all.md" }

// rewrite puts texts between the markers of their names in file, and changes
// nothing else.
func rewrite(file string, texts map[string]string) error {
	before, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text := string(before)
	for name, next := range texts {
		if text, err = markers.Replace(text, "make bench", name, next); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
