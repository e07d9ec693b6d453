// SPDX-License-Identifier: Apache-2.0

package nodeload

import (
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate/algorithm"
)

// Config of a Run. The zero Config is the node that the design promises to
// carry.
type Config struct {
	// Hosts of the cluster, the node under test included; at least 2,
	// default 50.
	Hosts int
	// Keys in use on every host; default 100,000.
	Keys int
	// Rate is the decisions/s of the node under test, over all keys in turn.
	// Default: each key once an interval, so that every report has every key.
	Rate float64
	// Interval is the update_interval; at least 100ms, default 3s.
	Interval time.Duration
	// Warmup is how many intervals pass unmeasured; default 14. In the first half
	// the keys come into use, and stay in use: all hosts begin at the same time, and a
	// new host asks for each event of a key until it has a grant.
	Warmup int
	// Intervals is how many are measured; default 10.
	Intervals int
	// Algorithm of all keys; default that of rules, auto.
	Algorithm string
	// Profiles, when not empty, is the folder into which the node writes
	// cpu.pprof, heap.pprof, allocs.pprof and mutex.pprof of what is measured.
	Profiles string
}

func (c Config) withDefaults() Config {
	if c.Hosts == 0 {
		c.Hosts = 50
	}
	if c.Keys == 0 {
		c.Keys = 100_000
	}
	if c.Interval == 0 {
		c.Interval = 3 * time.Second
	}
	if c.Rate == 0 {
		c.Rate = float64(c.Keys) / c.Interval.Seconds()
	}
	if c.Algorithm == "" {
		c.Algorithm = algorithm.NameAuto
	}
	if c.Warmup == 0 {
		c.Warmup = 14
	}
	if c.Intervals == 0 {
		c.Intervals = 10
	}
	return c
}

// load is perSecond decisions, by so many callers.
func (c Config) load(perSecond float64, callers int) load {
	return load{ramp: c.Interval * time.Duration(c.Warmup) / 2, perSecond: perSecond, callers: callers}
}

// Validate returns all that is wrong with c.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.Hosts < 2 || c.Hosts > 1000 {
		errs = append(errs, fmt.Errorf("%d hosts: take 2 to 1000", c.Hosts))
	}
	if c.Keys < 1 || c.Keys > 10_000_000 {
		errs = append(errs, fmt.Errorf("%d keys: take 1 to 10,000,000", c.Keys))
	}
	if !(c.Rate > 0 && c.Rate <= 1e6) {
		errs = append(errs, fmt.Errorf("rate %v: take more than 0, at most 1,000,000 decisions/s", c.Rate))
	}
	if c.Interval < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("interval %v: take at least 100ms", c.Interval))
	}
	if c.Warmup < 1 || c.Intervals < 1 {
		errs = append(errs, errors.New("no intervals: take at least one to warm up, and one to measure"))
	}
	return errors.Join(errs...)
}
