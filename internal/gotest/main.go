// SPDX-License-Identifier: Apache-2.0

// Command gotest runs go test and tells what happened, loudly where tests
// were skipped: a suite that skips what it should show looks green too.
//
//	go run ./internal/gotest [flags of go test] [packages]
//
// It prints one line for each test and package, everything that a failed
// test wrote, and at the end each skipped test with its reason. It exits as
// go test does.
package main

import (
	"fmt"
	"os"
	"os/exec"
)

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...) //nolint:noctx // it lives as long as this process
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
	report.end()
	if readErr != nil {
		fmt.Fprintln(os.Stderr, "gotest: reading go test's events:", readErr)
	}
	if readErr != nil || waitErr != nil || report.failed > 0 {
		return 1
	}
	return 0
}
