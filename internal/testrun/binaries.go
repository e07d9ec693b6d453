// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// DirEnv names the folder in which the tests of one run share what they build.
// internal/gotest sets it for a whole run, and Main for one package. Without it,
// each call builds for itself.
const DirEnv = "HEADGATE_TEST_BINARIES"

// Main runs the tests of a package, which share what they build, and returns the
// exit code for os.Exit. A TestMain of a package whose tests start programs calls it.
func Main(m *testing.M) int {
	if _, ok := syscall.Getenv(DirEnv); ok {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "headgate-test")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Setenv(DirEnv, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// module has the programs, in its folder cmd.
const module = "github.com/headgate/headgate"

// building is held while this process builds.
var building sync.Mutex

// Headgate returns the path of the command headgate, built from the module's
// source. It may be called from any package's tests, from several processes at
// once too.
func Headgate(t testing.TB) string {
	t.Helper()
	return Program(t, "headgate")
}

// Program is Headgate for any command of the folder cmd.
func Program(t testing.TB, name string) string {
	t.Helper()
	building.Lock()
	defer building.Unlock()

	// os.Getenv would have go test note the folder, which is another one in each
	// run, and never take a result from its cache.
	dir, ok := syscall.Getenv(DirEnv)
	if !ok {
		dir = t.TempDir()
	}
	built := filepath.Join(dir, name)
	err := share(built, func(fresh string) error {
		// Tests of another module of this repository build it as it is built in its own.
		root, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			return fmt.Errorf("find %s: %w", module, err)
		}
		build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", fresh, "./cmd/"+name)
		build.Dir = strings.TrimSpace(string(root))
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// share calls build, which writes a file, unless the file built is there. If another process
// builds now, this one waits and takes that one's file. If that process dies, even if a
// process that it started lives on, one of those that wait builds.
func share(built string, build func(fresh string) error) error {
	if _, err := os.Stat(built); err == nil {
		return nil
	}
	lock, err := os.OpenFile(built+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // also unlocks
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(built); err == nil {
		return nil
	}
	// The file gets its name when it is whole.
	own, err := os.MkdirTemp(filepath.Dir(built), "build") // a rename must stay on one file system
	if err != nil {
		return err
	}
	defer os.RemoveAll(own)
	fresh := filepath.Join(own, filepath.Base(built))
	if err := build(fresh); err != nil {
		return err
	}
	return os.Rename(fresh, built)
}
