// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// fill has the pipe w take no more.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var full error
	err = raw.Write(func(fd uintptr) bool {
		for full == nil {
			_, full = syscall.Write(int(fd), []byte("x"))
		}
		return true
	})
	if err != nil || !errors.Is(full, syscall.EAGAIN) {
		t.Fatal(err, full)
	}
}

// A daemon answers, and ends in order, although nobody reads its log, or what read it has gone.
func TestADaemonDoesNotDependOnWhatReadsItsLog(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "limits:\n  - {key: k, limit: 10/s}\n")
	for what, fate := range map[string]func(t *testing.T, r, w *os.File){
		"hangs": func(t *testing.T, _, w *os.File) { fill(t, w) },
		"gone":  func(_ *testing.T, r, _ *os.File) { _ = r.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			fate(t, r, w)
			p := launchBy(t, func(c *exec.Cmd) error {
				c.Stderr = w
				return errors.Join(c.Start(), w.Close())
			}, "serve", "--limits", limits, "--listen", "127.0.0.1:0", "--edge", "127.0.0.1:0", "--http", "127.0.0.1:0", "--lame-duck", "0s")
			for _, name := range []string{"cluster", "edge"} {
				p.endpoint(t, name)
			}
			at := p.endpoint(t, "http")
			for _, signal := range []os.Signal{nil, syscall.SIGHUP} {
				if signal != nil {
					if err := p.cmd.Process.Signal(signal); err != nil {
						t.Fatal(err)
					}
				}
				// Nothing limits the key, which is logged.
				if status, text := fetch(t, http.MethodPost, "http://"+at+"/v1/allow", `{"key": "other"}`); status != 200 {
					t.Errorf("%d %s", status, text)
				}
			}
			if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := p.cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// SIGHUP, which has other daemons read their files again, ends nothing.
func TestSIGHUPChangesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	t.Parallel()
	limits := filepath.Join(t.TempDir(), "limits.yaml")
	write(t, limits, "limits:\n  - {key: k, limit: 10/s}\n")
	p := serving(t, "--limits", limits, "--http", "127.0.0.1:0")
	p.ready(t)
	at := p.endpoint(t, "http")
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the daemon says so", func() bool { return strings.Contains(p.logged(), "SIGHUP changes nothing") })
	if status, text := fetch(t, http.MethodGet, "http://"+at+"/readyz", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}
