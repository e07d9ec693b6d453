// SPDX-License-Identifier: Apache-2.0

package swarm

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/internal/sim/ledger"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/world"
	"github.com/headgate/headgate/internal/testrun"
)

// clusters is how many to run; 0: as many as the form of the run has time for.
var clusters = flag.Int("clusters", 0, "how many random clusters to run")

func TestMain(m *testing.M) {
	testrun.OnlyComputes()
	testrun.CollectLess()
	os.Exit(m.Run())
}

func TestSwarmKeepsTheLaws(t *testing.T) {
	n := *clusters
	switch {
	case n > 0:
	case testing.Short():
		n = 10
	case testrun.Long():
		n = 400
	default:
		n = 30
	}
	flags := map[string]string{"rapid.checks": strconv.Itoa(n), "rapid.nofailfile": "true"}
	if flag.Lookup("rapid.seed").Value.String() == "0" {
		flags["rapid.seed"] = "1" // the same clusters in every run
	}
	for name, value := range flags {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		if err := c.run(); err != nil {
			t.Fatalf("%v\nheadgate-lab simulate %s --seed %d --users\n%v", err, c.file(), c.seed, c)
		}
	})
}

// run runs c and returns the laws that it breaks.
func (c cluster) run() error {
	sc, err := scenario.Parse("swarm", []byte(c.String()), nil)
	if err != nil {
		return err
	}
	ledger := new(ledger.Ledger)
	r, err := world.Options{Seed: c.seed, Ledger: ledger}.Run(context.Background(), sc)
	if err != nil {
		return err
	}
	k, hosts := r.Whole(), ledger.Rows[0]
	return errors.Join(c.counts(k), c.agrees(k, hosts), c.bounded(k), c.settles(k), c.feeds(hosts))
}

// file writes c where somebody can run it again, and returns where.
func (c cluster) file() string {
	name := filepath.Join(os.TempDir(), "headgate-swarm.yaml")
	if err := os.WriteFile(name, []byte(c.String()), 0o600); err != nil {
		return err.Error()
	}
	return name
}
