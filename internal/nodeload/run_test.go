// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// asNode in the environment makes the test program the node under test.
const asNode = "HEADGATE_NODELOAD_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(asNode) != "" {
		if err := Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), asNode+"=1")
	return cmd
}

func TestSmallNode(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a process takes is measured on Linux only")
	}
	dir := t.TempDir()
	var r Result
	// A machine that is too slow for an interval gets a longer one.
	for interval := 100 * time.Millisecond; interval < 10*time.Second; interval *= 4 {
		var err error
		r, err = Run(t.Context(), Config{Hosts: 4, Keys: 200, Interval: interval, Warmup: 2, Intervals: 2, Profiles: dir}, command)
		if err != nil {
			t.Fatal(err)
		}
		if r.Live == 200 && r.Failed == 0 && r.Updates > 0 {
			break
		}
	}
	if r.Live != 200 || r.Failed != 0 {
		t.Errorf("%d of 200 keys live, %d updates failed", r.Live, r.Failed)
	}
	if r.Owned == 0 || r.Owned == 200 {
		t.Errorf("owns %d of 200 keys on 4 hosts", r.Owned)
	}
	if r.CPUPercent <= 0 || r.RSS < 1<<20 || r.MaxRSS < r.RSS {
		t.Errorf("CPU %v%%, RSS %d, at most %d", r.CPUPercent, r.RSS, r.MaxRSS)
	}
	if r.Updates == 0 || r.UpdateP50Ms <= 0 || r.UpdateP99Ms < r.UpdateP50Ms || r.UpdateMaxMs < r.UpdateP99Ms {
		t.Errorf("%d updates took %v, %v, %v ms", r.Updates, r.UpdateP50Ms, r.UpdateP99Ms, r.UpdateMaxMs)
	}
	if r.RowsInPerS <= 0 || r.RowsOutPerS <= 0 || r.BytesInPerS < 10*r.RowsInPerS || r.BytesOutPerS < 10*r.RowsOutPerS {
		t.Errorf("%v, %v rows/s in %v, %v bytes/s", r.RowsInPerS, r.RowsOutPerS, r.BytesInPerS, r.BytesOutPerS)
	}
	for _, name := range []string{"cpu", "heap", "allocs", "mutex"} {
		if s, err := os.Stat(filepath.Join(dir, name+".pprof")); err != nil || s.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	var b bytes.Buffer
	if err := r.WriteTable(&b); err != nil || !strings.Contains(b.String(), "of one core") || strings.Contains(b.String(), "*") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestNodeThatDoesNotStart(t *testing.T) {
	_, err := Run(t.Context(), Config{Hosts: 2, Keys: 1}, func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, filepath.Join(t.TempDir(), "no such program"))
	})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("err = %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]Config{
		"hosts":     {Hosts: 1},
		"keys":      {Keys: -1},
		"rate":      {Rate: -1},
		"interval":  {Interval: time.Millisecond},
		"intervals": {Intervals: -1},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
