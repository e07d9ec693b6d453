// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testrun"
)

// clockSteps sets the wall clock of one daemon, which owns keys and has keys of others, while
// it decides.
func clockSteps(t *testing.T) *findings {
	c := newMemberCluster(t, 3, true, faultRules)
	v, edges := c.nodes[0], c.edges(-1)
	clock := newWallClock(t, v.process.cmd.Process)
	w := newWatching(t, edges, append(c.limited(t, v.cluster), c.limited(t, c.nodes[1].cluster)...), c.limits, nil)
	w.begin()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour, 0} {
		clock.set(t, ahead)
		if off := time.Until(dated(t, c.admins[0])) - ahead; off.Abs() > time.Minute {
			t.Fatalf("the daemon's clock is off by %v where the test sets it", off)
		}
		watch(lasting(time.Second, 8*time.Second))
		for i := range c.nodes {
			if n := c.up(i); n != len(c.nodes) && *strict {
				t.Errorf("%s ahead, %d of %d own keys, as daemon %d sees them", ahead, n, len(c.nodes), i)
			}
		}
	}
	f := w.end(t, 1, faultBurst)
	now := time.Now()
	for _, key := range w.keys {
		if part := w.admitted(key, w.began, now, nil) / faultLimit / now.Sub(w.began).Seconds(); *strict && part < 0.95 {
			t.Errorf("%s: %.2f of the limit was admitted", key, part)
		}
	}
	f.failed = w.none(t, w.began, edges)
	return f
}

// dated is the time that the daemon's admin port says it is.
func dated(t *testing.T, admin string) time.Time {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil {
		t.Fatal(err)
	}
	return date
}

// wallClock is the wall clock of one headgate. Setting the machine's would set everybody's, and
// a time namespace has no wall clock of its own. time.Now adds a constant to the seconds that
// the kernel has; a wallClock writes another constant into the code of the process.
// The monotonic clock stays as it is, as it does when somebody sets the machine's clock.
type wallClock struct {
	process  *os.Process
	constant int64 // where it is in the process's memory
}

// secondsTo1885 is the constant: from 1885, where time.Now's seconds begin, to 1970.
var secondsTo1885 = uint32(time.Unix(0, 0).Sub(time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC)) / time.Second)

// newWallClock finds the constant in the code of a process that runs testrun.Headgate. It skips
// t where code has no such constants.
func newWallClock(t *testing.T, process *os.Process) *wallClock {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("!!! SKIPPED: the constant in time.Now is known on amd64 alone")
	}
	file, err := elf.Open(testrun.Headgate(t))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name != "time.Now" {
			continue
		}
		code := make([]byte, s.Size)
		text := file.Section(".text")
		if _, err := text.ReadAt(code, int64(s.Value-text.Addr)); err != nil {
			t.Fatal(err)
		}
		constant := binary.LittleEndian.AppendUint32(nil, secondsTo1885)
		if bytes.Count(code, constant) != 1 {
			t.Fatalf("time.Now has the constant %d times: %x", bytes.Count(code, constant), code)
		}
		return &wallClock{process, int64(s.Value) + int64(bytes.Index(code, constant))}
	}
	t.Fatal("headgate has no time.Now")
	return nil
}

// set has the process read a time that is ahead of the machine's. The process stands still
// meanwhile, so that no thread sees half a constant.
func (w *wallClock) set(t *testing.T, ahead time.Duration) {
	t.Helper()
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", w.process.Pid), os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("!!! SKIPPED: the code of a process may not be changed; run it as root: %v", err)
	}
	defer memory.Close()
	if err := w.process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.process.Signal(syscall.SIGCONT) }()
	eventually(t, "it stands still", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.process.Pid))
		return err == nil && bytes.Contains(stat, []byte(") T "))
	})
	constant := binary.LittleEndian.AppendUint32(nil, uint32(int64(secondsTo1885)+int64(ahead/time.Second)))
	if _, err := memory.WriteAt(constant, w.constant); err != nil {
		t.Skipf("!!! SKIPPED: the code of a process may not be changed: %v", err)
	}
}
