// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// builderEnv has this test binary be a process that builds the file that it names, and does not
// end. With another value it is the process that the builder starts, as go build would be.
const builderEnv = "HEADGATE_TEST_BUILDER"

func TestMain(m *testing.M) {
	switch built := os.Getenv(builderEnv); built {
	case "":
		os.Exit(m.Run())
	case "child":
		_, _ = io.Copy(io.Discard, os.Stdin) // until the test has ended
	default:
		err := share(built, func(string) error {
			child := exec.Command(os.Args[0]) // it outlives this process
			child.Env, child.Stdin = append(os.Environ(), builderEnv+"=child"), os.Stdin
			if err := child.Start(); err != nil {
				return err
			}
			_, _ = os.Stdout.WriteString("building\n")
			return child.Wait()
		})
		if err != nil {
			os.Exit(1)
		}
	}
}

// A process that waits for one that dies while it builds, builds itself, though what
// the dead one had started goes on.
func TestABuilderThatDiesKeepsNobodyWaiting(t *testing.T) {
	built := filepath.Join(t.TempDir(), "program")
	builder := exec.CommandContext(t.Context(), os.Args[0])
	builder.Env = append(os.Environ(), builderEnv+"="+built)
	alive, err := builder.StdinPipe() // the child of the builder has it too
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	says, err := builder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := builder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(says).ReadString('\n'); err != nil {
		t.Fatalf("the builder says %q: %v", line, err)
	}
	var (
		died   atomic.Bool
		builds atomic.Int64
		all    sync.WaitGroup
	)
	for range 4 {
		all.Go(func() {
			err := share(built, func(fresh string) error {
				if !died.Load() {
					t.Error("two build at once")
				}
				builds.Add(1)
				return os.WriteFile(fresh, []byte("whole"), 0o600)
			})
			if err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(built); err != nil || string(text) != "whole" {
				t.Errorf("the program is %q, %v", text, err)
			}
		})
	}
	died.Store(true)
	if err := builder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if n := builds.Load(); n != 1 {
		t.Errorf("%d build it", n)
	}
	_ = builder.Wait() // it was killed
}

// After a build that failed, the next process builds.
func TestABuildThatFailsIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	built, broken := filepath.Join(dir, "program"), errors.New("broken")
	if err := share(built, func(string) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("err = %v", err)
	}
	if err := share(built, func(fresh string) error { return os.WriteFile(fresh, nil, 0o600) }); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "build*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
