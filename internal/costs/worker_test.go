// SPDX-License-Identifier: Apache-2.0

package costs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testrun"
)

// What a worker, which is this test in a process of its own, is told.
const (
	workerOperation = "HEADGATE_COSTS_OPERATION"
	workerCount     = "HEADGATE_COSTS_COUNT" // run batches for callgrind
)

// batches are counted for each operation.
const batches = 5

func init() {
	// Only here is the main goroutine, which measures, on the main thread.
	if os.Getenv(workerOperation) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	name := os.Getenv(workerOperation)
	if name == "" {
		testrun.OnlyComputes()
		code := m.Run()
		if shared.dir != "" {
			os.RemoveAll(shared.dir)
		}
		os.Exit(code)
	}
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintln(os.Stderr, p)
			os.Exit(1)
		}
	}()
	all := append(operations(), probes()...)
	i := slices.IndexFunc(all, func(o operation) bool { return o.name == name })
	if i < 0 {
		panic("no such operation: " + name)
	}
	if os.Getenv(workerCount) != "" {
		all[i].count()
		os.Exit(0)
	}
	check(json.NewEncoder(os.Stdout).Encode(all[i].measure()))
	os.Exit(0)
}

// count runs batches for callgrind.
func (o operation) count() {
	prepare, run := o.bench()
	if prepare != nil && o.runs != 1 {
		panic(o.name + ": it is prepared, so a batch is one run")
	}
	for range batches {
		if prepare != nil {
			prepare()
		}
		Mark()
		for range o.runs {
			run()
		}
		Mark()
	}
}

// measure measures everything but instructions.
func (o operation) measure() Figures {
	f := make(Figures)
	units := float64(o.units)
	if o.bench != nil {
		prepare, run := o.bench()
		allocs, bytes := Allocations(max(o.runs, 5), prepare, run)
		f[Allocs], f[Bytes] = allocs/units, bytes/units
	}
	if o.wire != nil {
		f[Wire] = float64(o.wire()) / units
	}
	if o.hold != nil {
		f[Heap] = HeapOf(o.hold) / units
	}
	return f
}

// worker is the command that measures o; with env it is told more.
func (o operation) worker(ctx context.Context, binary string, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append(os.Environ(), workerOperation+"="+o.name)
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// build builds the worker. This very process will not do: go test strips the
// names that callgrind goes by, and may have been told to look for races. The
// worker has no DWARF, which valgrind would read in each process.
func build(ctx context.Context, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-race=false", "-cover=false", "-ldflags=-w", "-o", binary, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOAMD64=v1", "GOEXPERIMENT=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the worker: %w\n%s", err, tail(string(out)))
	}
	return nil
}

// figures measures o in processes of their own; its instructions if count.
func (o operation) figures(ctx context.Context, binary string, count bool) (Figures, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	out, err := o.worker(ctx, binary, "GOMAXPROCS=1", "GODEBUG=", "GOGC=off").Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w\n%s", err, tail(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("%s: %w", o.name, err)
	}
	f := make(Figures)
	if err := json.Unmarshal(out, &f); err != nil {
		return nil, fmt.Errorf("%s: %w", o.name, err)
	}
	if o.bench == nil || !count {
		return f, nil
	}
	counts, err := CountInstructions(o.worker(ctx, binary, workerCount+"=1"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.name, err)
	}
	f[Instructions] = slices.Min(counts) / float64(o.runs*o.units)
	return f, nil
}
