// SPDX-License-Identifier: Apache-2.0

package testrun_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testrun"
)

// lowered has this program lower its priority and say which one a program has that it starts.
const lowered = "HEADGATE_TEST_LOWERED"

func TestOnlyComputesLowersThePriorityOfPrograms(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("does nothing on " + runtime.GOOS)
	}
	nice := func() string {
		out, err := exec.CommandContext(t.Context(), "nice").CombinedOutput()
		if err != nil {
			t.Fatal(err, string(out))
		}
		return strings.TrimSpace(string(out))
	}
	if os.Getenv(lowered) != "" {
		testrun.OnlyComputes()
		for range 20 { // on other threads, too
			if got := nice(); got != "10" {
				t.Fatalf("a program runs at %s, want 10", got)
			}
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), lowered+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
