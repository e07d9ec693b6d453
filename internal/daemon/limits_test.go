// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/headgate/headgate/dynamicconfig/history"
)

// A daemon keeps its limits while their database is gone, also over a restart, and follows
// the database when it is back.
func TestTheDatabaseOfLimitsIsGoneForAWhile(t *testing.T) {
	c := config(t)
	c.Limits, c.LimitsDB, c.Data = "", filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "data")
	if _, err := Start(t.Context(), c, quiet); !errors.Is(err, history.ErrEmpty) {
		t.Fatalf("without limits: %v", err)
	}
	db, err := OpenLimitsDB(c.LimitsDB)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	set := func(base int64, text string) {
		t.Helper()
		if _, err := db.Append(t.Context(), history.Change{Base: base, Text: text, Author: "a test"}); err != nil {
			t.Fatal(err)
		}
	}
	burst := func(d *Daemon) float64 {
		r, _ := d.Node().Limits().Current().Match("k")
		return r.Burst
	}
	start := func() *Daemon {
		t.Helper()
		d, err := Start(t.Context(), c, quiet)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	stop := func(d *Daemon) {
		t.Helper()
		if err := d.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	set(0, "limits: [{key: k, limit: 10/s, burst: 1}]\n")
	d := start()
	set(1, "limits: [{key: k, limit: 10/s, burst: 2}]\n")
	eventually(t, "the daemon follows the database", func() bool { return burst(d) == 2 })
	aside := c.LimitsDB + ".aside"
	if err := errors.Join(db.Close(), os.Rename(c.LimitsDB, aside)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the daemon sees that the database is gone", func() bool { return d.Node().Limits().LastError() != nil })
	if burst(d) != 2 {
		t.Errorf("burst %v while the database is gone", burst(d))
	}
	stop(d)

	d = start()
	defer func() { stop(d) }()
	if burst(d) != 2 {
		t.Errorf("burst %v after a start without the database", burst(d))
	}
	if err := os.Rename(aside, c.LimitsDB); err != nil {
		t.Fatal(err)
	}
	if db, err = OpenLimitsDB(c.LimitsDB); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	set(2, "limits: [{key: k, limit: 10/s, burst: 3}]\n")
	eventually(t, "the daemon follows the database that is back", func() bool { return burst(d) == 3 })
}
