// SPDX-License-Identifier: Apache-2.0

package testrun

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	if _, err := os.Stat(built); err == nil {
		return built
	}
	// Another process may build it now: then this one waits and takes that one.
	lock, err := os.OpenFile(built+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close() // also unlocks
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("lock %s: %w", lock.Name(), err))
	}
	if _, err := os.Stat(built); err == nil {
		return built
	}
	// The file gets its name when it is whole.
	own, err := os.MkdirTemp(dir, "build") //nolint:usetesting // a rename must stay on one file system
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(own)
	fresh := filepath.Join(own, name)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", fresh, "github.com/headgate/headgate/cmd/"+name).CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("build %s: %w\n%s", name, err, out))
	}
	if err := os.Rename(fresh, built); err != nil {
		t.Fatal(err)
	}
	return built
}
