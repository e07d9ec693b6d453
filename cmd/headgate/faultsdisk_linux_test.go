// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/internal/testrun"
)

// disk is a small file system that only one thread of this process sees, and the
// processes that this thread starts.
type disk struct {
	dir string
	do  chan func()
}

// newDisk makes a disk of some bytes. It skips t where that is not allowed.
func newDisk(t *testing.T, size int) *disk {
	t.Helper()
	d := &disk{dir: t.TempDir(), do: make(chan func())}
	made := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with this goroutine
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount("none", d.dir, "tmpfs", 0, fmt.Sprint("size=", size))
		}
		made <- err
		if err != nil {
			return
		}
		for f := range d.do {
			f()
		}
	}()
	if err := <-made; err != nil {
		t.Skipf("!!! SKIPPED: no disk of its own; run it as root: %v", err)
	}
	t.Cleanup(func() { close(d.do) })
	return d
}

// on calls f on the thread that sees d.
func (d *disk) on(f func() error) error {
	done := make(chan error)
	d.do <- func() { done <- f() }
	return <-done
}

func (d *disk) start(cmd *exec.Cmd) error { return d.on(cmd.Start) }

// run runs headgate, and returns all that it prints.
func (d *disk) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testrun.Headgate(t), args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := d.start(cmd); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	return out.String(), err
}

// fill writes until there is no room for one byte.
func (d *disk) fill(t *testing.T) {
	t.Helper()
	err := d.on(func() error {
		f, err := os.Create(filepath.Join(d.dir, "full"))
		if err != nil {
			return err
		}
		defer f.Close()
		for _, size := range []int{1 << 12, 1} {
			for err = nil; err == nil; {
				_, err = f.Write(make([]byte, size))
			}
		}
		if errors.Is(err, unix.ENOSPC) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fullDisk has the disk of the limits run full, and free again.
func fullDisk(t *testing.T) *findings {
	d := newDisk(t, 1<<20)
	db := filepath.Join(d.dir, "db")
	if err := d.on(func() error { return os.Mkdir(db, 0o700) }); err != nil {
		t.Fatal(err)
	}
	apply := func(rules string) (string, error) {
		path := filepath.Join(t.TempDir(), "limits.yaml")
		write(t, path, rules)
		return d.run(t, "limits", "apply", "--limits-db", db, path, "-m", "a change")
	}
	if out, err := apply(faultRules); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := newMemberClusterBy(t, d.start, 3, true, "", "--limits-db", db)
	c.limits = filepath.Join(t.TempDir(), "limits.yaml")
	write(t, c.limits, faultRules)
	v, others := c.nodes[0], c.edges(0)
	w := newWatching(t, c.edges(-1), append(c.limited(t, v.cluster), c.limited(t, c.nodes[1].cluster)...), c.limits, nil)
	d.fill(t)
	w.begin()
	const rule = `{key: "k:*", limit: 50/s, burst: 25}`
	changed := strings.Replace(faultRules, rule, `{key: "k:*", limit: 40/s, burst: 25}`, 1)
	out, err := apply(changed)
	if err == nil || !strings.Contains(out, "full") && !strings.Contains(out, "no space") {
		t.Errorf("a change on a full disk: %v, %s", err, out)
	}
	if out, err := d.run(t, "limits", "export", "--limits-db", db); err != nil || !strings.Contains(out, faultRules) {
		t.Errorf("after a change that failed, the limits are, %v:\n%s", err, out)
	}
	v.kill()
	watch(lasting(time.Second, 5*time.Second))
	v.args = append(v.args, "--data", filepath.Join(d.dir, "data"))
	v.start()
	for i := range c.nodes {
		eventually(t, "it is back", func() bool { return c.up(i) == len(c.nodes) })
	}
	watch(lasting(time.Second, 10*time.Second))
	f := w.end(t, 1, 2*faultBurst)
	if err := d.on(func() error { return os.Remove(filepath.Join(d.dir, "full")) }); err != nil {
		t.Fatal(err)
	}
	if out, err := apply(changed); err != nil {
		t.Errorf("a change with room again: %v, %s", err, out)
	}
	began := time.Now()
	for _, n := range c.nodes {
		eventually(t, "the change is in force", func() bool { return strings.Contains(n.process.logged(), "limit 50/s → 40/s") })
	}
	f.served = "a change is in force after " + seconds(time.Since(began))
	if took := time.Since(began); *strict && took > 5*time.Second {
		t.Errorf("the change is in force after %v", took)
	}
	f.failed = w.none(t, w.began, others) + " at the two that live"
	return f
}
