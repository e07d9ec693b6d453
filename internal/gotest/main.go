// SPDX-License-Identifier: Apache-2.0

// Command gotest runs go test and reports what happened, loudly where tests
// were skipped: a suite that skips what it should show looks green too.
//
//	go run ./internal/gotest [-beside DIR] [flags of go test] [packages]
//
// It prints one line for each test and package, everything that a failed
// test wrote, and at the end each skipped test with its reason, how long it all
// took, and which packages took longest. It exits as go test does.
//
// The tests of one run share the programs that they build; see
// internal/testrun. Some packages wait for most of their time, so a few more run
// at a time than there are processors, unless -p says otherwise. The packages that
// take longest start first, so that none of them runs alone at the end. With -beside, all
// tests of the module in the folder DIR run at the same time and are in the same report.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/testrun"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	beside := ""
	if len(args) > 1 && args[0] == "-beside" {
		beside, args = args[1], args[2:]
	}
	began := time.Now()
	shared, err := os.MkdirTemp("", "headgate-gotest")
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	defer os.RemoveAll(shared)
	report := newReport(os.Stdout)
	var (
		runs   sync.WaitGroup
		took   [2]time.Duration // of the processors' time
		failed [2]bool
	)
	runs.Go(func() { took[0], failed[0] = goTest(report, ".", shared, longestFirst(args)) })
	if beside != "" {
		runs.Go(func() { took[1], failed[1] = goTest(report, beside, shared, []string{"./..."}) })
	}
	runs.Wait()
	report.end(time.Since(began), took[0]+took[1])
	if failed[0] || failed[1] || report.failed > 0 {
		return 1
	}
	return 0
}

// goTest runs go test in the folder dir and returns how much of the processors' time that took.
func goTest(report *report, dir, shared string, args []string) (took time.Duration, failed bool) {
	// make check and make lint vet all packages.
	// A package that hangs ends after 20 minutes: the longest takes some minutes, and more on a
	// machine that is shared. No debugger reads the tests' programs, and linking takes a tenth
	// less time without DWARF. A later flag wins.
	args = append([]string{"test", "-json", "-timeout", "20m", "-vet=off", "-ldflags=-w", "-p", strconv.Itoa(runtime.NumCPU() + 2)}, args...)
	cmd := exec.Command("go", args...) //nolint:noctx // it lives as long as this process
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), testrun.DirEnv+"="+shared)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 0, true
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "gotest: is go in PATH?", err)
		return 0, true
	}
	readErr := report.read(events)
	waitErr := cmd.Wait()
	if readErr != nil {
		fmt.Fprintln(os.Stderr, "gotest: reading go test's events:", readErr)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), readErr != nil || waitErr != nil
}

// long are the packages that take longest, the longest first. go test starts packages in the
// order in which its arguments name them, and each of them once.
var long = []string{
	"./internal/sim/world",
	"./cmd/headgate",
	"./internal/attack",
	".",
	"./internal/docstest",
	"./limiter",
	"./internal/costs",
	"./aggregator",
	"./limiter/redis",
	"./internal/daemon",
	"./internal/conformance",
	"./dynamicconfig",
}

// longestFirst puts the longest packages before ./..., if that is what args end with.
func longestFirst(args []string) []string {
	last := len(args) - 1
	if last < 0 || args[last] != "./..." {
		return args
	}
	for _, dir := range long {
		if _, err := os.Stat(dir); err != nil {
			return args // another folder
		}
	}
	return slices.Concat(args[:last], long, args[last:])
}
