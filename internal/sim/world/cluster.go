// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/fleet"
	"github.com/headgate/headgate/internal/sim/ledger"
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/timeline"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// cluster is one run: a fleet, and what happens to it.
type cluster struct {
	*fleet.Fleet
	clients
	recording
	script
	oracle

	sc    *scenario.Scenario
	seed  uint64
	hosts []*host

	stated    *dynamicconfig.Snapshot // the newest, without overrides
	overrides []dynamicconfig.Override

	events  int64
	stuck   int64         // events since time went on
	weights *weights      // nil unless wanted
	books   *ledger.Books // likewise
}

// host is what traffic and actions know of one.
type host struct {
	*fleet.Host

	pauses  int   // that hold it now
	away    int   // that send its traffic elsewhere
	offered int64 // events since the number of hosts was last looked at
	wall    time.Duration
	held    []held // what happened during a pause
}

// held is an event of a paused host, or an arrival at it.
type held struct {
	event timeline.Event
	try   try
}

// The kinds of events that are no fleet's.
const (
	arrival = fleet.Kinds + iota // ref: stream
	traced                       // the next row of the trace
	action                       // ref: step of the scenario
	retries                      // ref: try of a client that was rejected
	sample                       // weights are looked at
)

// Bounds of a run, so that a mistake does not fill the memory.
const (
	maxEvents = 1e9
	maxStuck  = traffic.MaxTraceRows + 10_000_000 // events at one instant
	// maxKeySeconds bounds the bins that a run keeps.
	maxKeySeconds = 2_000_000
)

// newCluster returns the cluster of a scenario, before its first event.
func newCluster(sc *scenario.Scenario, limits *dynamicconfig.Snapshot, registry *algorithm.Registry, o Options) (*cluster, error) {
	f, err := fleet.New(fleet.Config{
		Scenario: sc, Limits: limits, Registry: registry, Seed: o.Seed, Patient: o.Patient, Elsewhere: o.Elsewhere,
	})
	if err != nil {
		return nil, err
	}
	c := &cluster{Fleet: f, sc: sc, seed: o.Seed, stated: limits}
	c.picks, c.traceLost = traffic.Chance(c.seed, "picks", 0), traffic.Chance(c.seed, "trace", 0)
	c.lean, c.keyOf = o.Lean, make(map[string]int)
	for _, h := range f.Hosts {
		c.hosts = append(c.hosts, &host{Host: h})
	}
	if err := c.findKeys(); err != nil {
		return nil, err
	}
	c.books = ledger.New(o.Ledger, c.buckets, len(sc.Hosts), int((sc.Duration+time.Second-1)/time.Second))
	names := make([]string, len(c.keys))
	for i, k := range c.keys {
		names[i] = k.name
	}
	if err := c.Found(names, c.books); err != nil {
		return nil, err
	}
	c.foresee()
	c.openSources()
	c.openTrace()
	for i := range sc.Steps {
		a := &sc.Steps[i]
		c.later(a.At, todo{action: a})
		if a.Mark != "" {
			c.marks = append(c.marks, measure.Mark{At: a.At, Text: a.Mark})
		}
	}
	sort.SliceStable(c.marks, func(i, j int) bool { return c.marks[i].At < c.marks[j].At })
	for _, b := range c.buckets {
		b.SetMarks(c.marks)
	}
	return c, nil
}

// run lets everything happen.
func (c *cluster) run(ctx context.Context) error {
	defer c.Close()
	end := c.sc.Duration
	for c.Queue.Len() > 0 && c.Err == nil {
		e := c.Queue.First()
		if e.At >= end {
			break
		}
		if c.stuck++; e.At > c.Now {
			c.Now, c.stuck = e.At, 0
		} else if c.stuck > maxStuck {
			return fmt.Errorf("at %s: %d events and time does not go on", c.Now, c.stuck)
		}
		if c.events++; c.events > maxEvents {
			return fmt.Errorf("more than %d events: lower the rates or the duration", int64(maxEvents))
		}
		if c.events%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		switch e.Kind {
		case arrival:
			c.fromStream(&c.streams[e.Ref])
			continue
		case traced:
			c.fromTrace()
			continue
		}
		c.Queue.Pop()
		if err := c.handle(e); err != nil {
			return fmt.Errorf("at %s: %w", c.Now, err)
		}
	}
	c.Now = end
	c.End()
	return c.Err
}

// handle is an event that is no traffic.
func (c *cluster) handle(e timeline.Event) error {
	switch e.Kind {
	case action:
		return c.act(c.todo[e.Ref])
	case retries:
		c.retry(e.Ref)
		return nil
	case sample:
		c.weights.take(c)
		return nil
	}
	if h := c.hosts[e.Who]; h.Up && h.pauses > 0 && fleet.ByProcess(e.Kind) {
		h.held = append(h.held, held{event: e})
		return nil
	}
	return c.Deliver(e)
}

// start begins a new process on h.
func (c *cluster) start(h *host) error {
	if !h.Up {
		h.held = nil
	}
	return c.Start(h.Host)
}

// stop ends the process on h: what was held for it is lost too.
func (c *cluster) stop(h *host) {
	h.held = nil
	c.Stop(h.Host)
}
