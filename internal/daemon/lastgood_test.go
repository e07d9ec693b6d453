// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/daemon/lastgood"
)

// runOnce starts a daemon and stops it.
func runOnce(t *testing.T, c Config) {
	t.Helper()
	d, err := Start(t.Context(), c, quiet)
	if err == nil {
		err = d.Stop(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A daemon that ends while the limits are broken starts again, with those that were in
// force, and takes the mended ones.
func TestADaemonStartsFromTheLastGoodLimits(t *testing.T) {
	good, better := "limits: [{key: k, limit: 10/s, burst: 7}]\n", "limits: [{key: k, limit: 10/s, burst: 8}]\n"
	for name, broken := range map[string]string{
		"text": "limits: [{key: k, limit: ten}]\n", "unknown algorithm": "limits: [{key: k, limit: 10/s, algorithm: mine}]\n", "empty": "", "gone": "",
	} {
		t.Run(name, func(t *testing.T) {
			c := config(t)
			c.Data = filepath.Join(t.TempDir(), "data")
			set := func(text string) {
				t.Helper()
				if err := os.WriteFile(c.Limits, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			burst := func(d *Daemon) float64 {
				r, _ := d.Node().Limits().Current().Match("k")
				return r.Burst
			}
			set(good)
			runOnce(t, c)
			if set(broken); name == "gone" {
				if err := os.Remove(c.Limits); err != nil {
					t.Fatal(err)
				}
			}
			log, logged := recording()
			d, err := Start(t.Context(), c, log)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := d.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}()
			if burst(d) != 7 || !strings.Contains(logged(), "starts with the last good ones") {
				t.Errorf("burst %v, logged:\n%s", burst(d), logged())
			}
			eventually(t, "the broken limits are told", func() bool { return d.Node().Limits().LastError() != nil })
			set(better)
			eventually(t, "the mended limits are in force", func() bool { return burst(d) == 8 })
		})
	}
}

func TestOperatorsAreToldOfAnUnwrittenCopy(t *testing.T) {
	c := config(t)
	c.Data = filepath.Join(t.TempDir(), "data")
	d, err := Start(t.Context(), c, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if got := d.health().Checks["data"]; !got.OK {
		t.Errorf("after the start: %+v", got)
	}
	if err := os.RemoveAll(c.Data); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Limits, []byte("limits: [{key: k, limit: 11/s}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the check says why", func() bool { return strings.Contains(d.health().Checks["data"].Error, "no such file") })
	if !d.health().Ready {
		t.Error("the daemon is not ready")
	}
}

func TestADamagedCopyIsNotUsed(t *testing.T) {
	c := config(t)
	c.Data = t.TempDir()
	file := filepath.Join(c.Data, lastgood.Name(c.Limits))
	runOnce(t, c)
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.Limits, []byte("limits: [broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"cut": string(whole[:len(whole)-2]), "changed": strings.Replace(string(whole), "limit:", "Limit:", 1),
		"empty": "", "too long": string(whole) + strings.Repeat("#", dynamicconfig.MaxLargeSize),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Start(t.Context(), c, quiet); err == nil || !strings.Contains(err.Error(), "is damaged: remove it") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), c, quiet); err == nil || strings.Contains(err.Error(), "copy") {
		t.Errorf("without a copy: %v", err)
	}
}

// A process that is killed while it writes a copy leaves a part of one.
func TestUnfinishedCopiesAreRemoved(t *testing.T) {
	c := config(t)
	c.Data = t.TempDir()
	file := filepath.Join(c.Data, lastgood.Name(c.Limits))
	old, written, other := file+".tmp-1", file+".tmp-2", filepath.Join(c.Data, "limits-0.last-good.tmp-1")
	for _, path := range []string{old, written, other} {
		if err := os.WriteFile(path, []byte("limits"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ago := time.Now().Add(-time.Hour)
	if err := errors.Join(os.Chtimes(old, ago, ago), os.Chtimes(other, ago, ago)); err != nil {
		t.Fatal(err)
	}
	runOnce(t, c)
	for path, stays := range map[string]bool{file: true, old: false, written: true, other: true} {
		if _, err := os.Stat(path); (err == nil) != stays {
			t.Errorf("%s: %v, want it to stay: %v", path, err, stays)
		}
	}
}

// A daemon whose limits are broken does not start from those of another one that has the same directory.
func TestACopyIsOfItsOwnLimits(t *testing.T) {
	c, other := config(t), config(t)
	c.Data = t.TempDir()
	other.Data = c.Data
	runOnce(t, c)
	runOnce(t, other)
	if err := os.WriteFile(other.Limits, []byte("limits: [broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	runOnce(t, other) // from its own copy
	if err := os.Remove(filepath.Join(other.Data, lastgood.Name(other.Limits))); err != nil {
		t.Fatal(err)
	}
	if d, err := Start(t.Context(), other, quiet); err == nil {
		t.Errorf("it started from the limits of another: %v", d.Stop(t.Context()))
	}
}
