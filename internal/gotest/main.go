// SPDX-License-Identifier: Apache-2.0

// Command gotest runs go test and tells what happened, loudly where tests
// were skipped: a suite that skips what it should show looks green too.
//
//	go run ./internal/gotest [flags of go test] [packages]
//
// It prints one line for each test and package, everything that a failed
// test wrote, and at the end each skipped test with its reason, how long it all
// took, and which packages took longest. It exits as go test does.
//
// The tests of one run share the programs that they build; see
// internal/testrun. Some packages wait for most of their time, so a few more run
// at a time than there are processors, unless -p says otherwise.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/testrun"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	began := time.Now()
	shared, err := os.MkdirTemp("", "headgate-gotest")
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	defer os.RemoveAll(shared)
	// A package that hangs ends after 20 minutes: the longest takes some minutes, and more on a
	// machine that is shared. A later flag wins.
	args = append([]string{"test", "-json", "-timeout", "20m", "-p", strconv.Itoa(runtime.NumCPU() + 2)}, args...)
	cmd := exec.Command("go", args...) //nolint:noctx // it lives as long as this process
	cmd.Env = append(os.Environ(), testrun.DirEnv+"="+shared)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		return 1
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "gotest: is go in PATH?", err)
		return 1
	}
	report := newReport(os.Stdout)
	readErr := report.read(events)
	waitErr := cmd.Wait()
	report.end(time.Since(began), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	if readErr != nil {
		fmt.Fprintln(os.Stderr, "gotest: reading go test's events:", readErr)
	}
	if readErr != nil || waitErr != nil || report.failed > 0 {
		return 1
	}
	return 0
}
