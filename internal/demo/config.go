// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
)

// Lane is one key whose rule has two algorithms. Every request asks every
// lane; the new algorithm of the first lane answers it. An algorithm that is
// in several lanes is measured in the first one.
type Lane struct {
	// Key is limited; unlike every other lane's.
	Key string
	// Old is measured in the shadow of New.
	Old, New string
}

// Lanes are those of the demo. A line more measures another algorithm. Its
// key should have the same owner, so that the host that is killed decides for
// all of them; the ring places keys alike in every run.
func Lanes() []Lane {
	return []Lane{
		{Key: "demo:orders", Old: "even", New: "auto"},
		{Key: "demo:weighted", Old: "even", New: "request-weighted"},
	}
}

// Config of a Run. The zero Config is the demo as it is meant.
type Config struct {
	// Hosts in the cluster; at least 3, default 5.
	Hosts int
	// Limit of the whole cluster, in requests/s; in [1, 1e6], default 500.
	Limit int
	// Offered load on the whole cluster, in requests/s; in [1, 20000],
	// default 2 × Limit.
	Offered int
	// For is how long all phases take together; at least 12 × Interval.
	// Zero: round after round until the context ends.
	For time.Duration
	// Interval is the update_interval; at least 100ms, default 1s. The
	// demo's other times go with it.
	Interval time.Duration
	// Lanes; default Lanes().
	Lanes []Lane
}

// roundLength is that of one round when there is no end.
const roundLength = 60

func (c Config) withDefaults() Config {
	if c.Hosts == 0 {
		c.Hosts = 5
	}
	if c.Limit == 0 {
		c.Limit = 500
	}
	if c.Offered == 0 {
		c.Offered = min(2*c.Limit, maxOffered)
	}
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	if c.Lanes == nil {
		c.Lanes = Lanes()
	}
	return c
}

const (
	maxLimit   = 1_000_000
	maxOffered = 20_000
)

// Validate returns all that is wrong with c.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Hosts < 3 || c.Hosts > 9 {
		errs = append(errs, fmt.Errorf("%d hosts: take 3 to 9", c.Hosts))
	}
	if c.Limit < 1 || c.Limit > maxLimit {
		errs = append(errs, fmt.Errorf("limit %d/s: take 1 to %d", c.Limit, maxLimit))
	}
	if c.Offered < 1 || c.Offered > maxOffered {
		errs = append(errs, fmt.Errorf("offered %d/s: take 1 to %d", c.Offered, maxOffered))
	}
	if c.Interval < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("interval %v: take at least 100ms", c.Interval))
	}
	if shortest := 12 * c.Interval; c.For != 0 && c.For < shortest {
		errs = append(errs, fmt.Errorf("%v is too short to see all three phases: take at least %v, or 0 to go on until Ctrl-C", c.For, shortest))
	}
	if len(c.Lanes) == 0 {
		errs = append(errs, errors.New("no lanes: take Lanes()"))
	}
	return errors.Join(errs...)
}

// YAML is the config that all hosts run with, as a user would write it.
func (c Config) YAML() string {
	c = c.withDefaults()
	var b strings.Builder
	fmt.Fprintf(&b, "defaults:\n  update_interval: %-8v # how often a host reports what it used\nlimits:\n", c.Interval)
	for _, l := range c.Lanes {
		fmt.Fprintf(&b, "  - key: %q\n    limit: %-16s # of all hosts together\n", l.Key, fmt.Sprintf("%d/s", c.Limit))
		fmt.Fprintf(&b, "    migrate: {from: %s, to: %s, mode: new-shadow-old}\n", l.Old, l.New)
	}
	return b.String()
}

func (c Config) snapshot() (*dynamicconfig.Snapshot, error) {
	return dynamicconfig.Parse("limits.yaml", []byte(c.YAML()))
}

// series is one algorithm of one lane, of which rates are taken.
type series struct {
	lane      int
	algorithm string
}

// measured lists each algorithm once, in the first lane that has it. The order
// is that of the lanes, old first, but the one that answers comes last, for
// the others to be compared with.
func (c Config) measured() []series {
	answers := c.Lanes[0].New
	var all []series
	seen := map[string]bool{answers: true}
	for i, l := range c.Lanes {
		for _, name := range []string{l.Old, l.New} {
			if !seen[name] {
				seen[name] = true
				all = append(all, series{i, name})
			}
		}
	}
	return append(all, series{0, answers})
}
