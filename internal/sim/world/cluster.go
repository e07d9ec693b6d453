// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/rpc/usage"
)

// cluster is one run.
type cluster struct {
	sc       *scenario.Scenario
	seed     uint64
	registry *algorithm.Registry
	patient  bool // hosts do not report early
	lean     bool // keys keep sums alone
	// elsewhere are the buckets of Options.Elsewhere.
	elsewhere []limiter.Option

	now   traffic.Time
	queue queue
	err   error // the first that was found in a place that returns none

	hosts    []*host // those that limit, then those that only decide
	byName   map[string]int
	branches []branch
	links    []*rand.Rand // by sending host
	news     []*rand.Rand // by host
	cuts     []cut
	cutIDs   int

	configs   []*dynamicconfig.Snapshot   // by version
	configsOf [][]*dynamicconfig.Snapshot // by version and cluster of the tree
	stated    *dynamicconfig.Snapshot     // the newest, without overrides
	overrides []dynamicconfig.Override
	keys      []*key
	keyOf     map[string]int
	buckets   []*measure.Bucket
	marks     []measure.Mark

	streams     []stream
	sources     [][]int      // by source: hosts
	sourceKeys  []int        // by source: its first key
	retries     []*rand.Rand // by source: of clients that try again
	waiting     []try        // rejected, by ref of retry events
	waitingFree []int32
	traceKeys   []int // by key of the trace
	traceHost   []int // by host of the trace
	traceRows   traffic.RowReader
	traceRow    traffic.TraceRow // the next one
	traceLost   *rand.Rand

	bumps map[int][]traffic.Bump // by host
	todo  []todo                 // by ref of action events
	picks *rand.Rand

	messages []message
	free     []int32
	usage    usage.Report
	grants   usage.Grants

	measure.Tally
	asking  map[*dynamicconfig.Snapshot][]bool // by key: whether hosts may ask its owner
	workers []*worker
	idle    []*worker
	running *worker // nil: none
	over    bool    // the run
	climbs  int32
	events  int64
	stuck   int64 // events since time went on

	weights *weights // nil unless wanted
	books   *books   // likewise
}

// key is one key that has traffic.
type key struct {
	name   string
	bucket *measure.Bucket
}

// Bounds of a run, so that a mistake does not fill the memory.
const (
	maxEvents = 1e9
	maxStuck  = traffic.MaxTraceRows + 10_000_000 // events at one instant
	// maxKeySeconds bounds the bins that a run keeps.
	maxKeySeconds = 2_000_000
)

// fail keeps the first error.
func (c *cluster) fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// newCluster returns the cluster of a scenario, before its first event.
func newCluster(sc *scenario.Scenario, limits *dynamicconfig.Snapshot, registry *algorithm.Registry, o Options) (*cluster, error) {
	seed := o.Seed
	c := &cluster{
		sc:        sc,
		seed:      seed,
		patient:   o.Patient,
		lean:      o.Lean,
		registry:  registry,
		byName:    make(map[string]int),
		keyOf:     make(map[string]int),
		asking:    make(map[*dynamicconfig.Snapshot][]bool),
		picks:     traffic.Chance(seed, "picks", 0),
		traceLost: traffic.Chance(seed, "trace", 0),
	}
	for name, buckets := range o.Elsewhere {
		c.elsewhere = append(c.elsewhere, limiter.WithRemote(name, buckets(func() traffic.Time { return c.now })))
	}
	for i, name := range sc.Hosts {
		c.hosts = append(c.hosts, &host{number: i, name: name, limits: true})
	}
	for i := range sc.Owners {
		c.hosts = append(c.hosts, &host{number: len(c.hosts), name: fmt.Sprintf("owner-%d", i), decides: true})
	}
	for i, of := range sc.EveryCluster() {
		c.branches = append(c.branches, branch{Cluster: &of})
		for _, h := range c.hosts {
			if of.Has(h.number) {
				h.branch = i
				h.decides = h.decides || of.Owners[0] == of.Owners[1]
			}
		}
	}
	c.stated = limits
	if err := c.adopt(limits); err != nil {
		return nil, err
	}
	for i, h := range c.hosts {
		c.byName[h.name] = i
		c.links = append(c.links, traffic.Chance(seed, "network", i))
		c.news = append(c.news, traffic.Chance(seed, "news", i))
	}
	if err := c.findKeys(); err != nil {
		return nil, err
	}
	c.books = newBooks(o.Ledger, c.buckets, len(sc.Hosts), int((sc.Duration+time.Second-1)/time.Second))
	if err := c.found(); err != nil {
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

// findKeys numbers all keys that have traffic.
func (c *cluster) findKeys() error {
	byName := make(map[string]*measure.Bucket)
	add := func(name string) (int, error) {
		if n, ok := c.keyOf[name]; ok {
			return n, nil
		}
		rule, ok := c.configs[0].Match(name)
		if !ok {
			return 0, fmt.Errorf("no rule matches the key %q, which has traffic: add one to limits", name)
		}
		of := rule.BucketKey(name)
		b := byName[of]
		if b == nil {
			b = measure.NewBucket(of, algorithmOf(rule), float64(rule.Limit), rule.Burst, c.sc.Warmup, c.sc.Duration)
			if c.lean {
				b.Lean()
			}
			byName[of] = b
			c.buckets = append(c.buckets, b)
		}
		c.keyOf[name] = len(c.keys)
		c.keys = append(c.keys, &key{name, b})
		return len(c.keys) - 1, nil
	}
	for i := range c.sc.Sources {
		s := &c.sc.Sources[i]
		c.sourceKeys = append(c.sourceKeys, -1)
		for client := range s.KeyCount() {
			n, err := add(s.KeyOf(client))
			if err != nil {
				return err
			}
			if client == 0 {
				c.sourceKeys[i] = n
			} else if n != c.sourceKeys[i]+client {
				return fmt.Errorf("another source has the key %q: give each source with clients keys of its own", s.KeyOf(client))
			}
		}
	}
	if t := c.sc.Trace; t != nil {
		for _, name := range t.Keys {
			n, err := add(name)
			if err != nil {
				return err
			}
			c.traceKeys = append(c.traceKeys, n)
		}
	}
	if n := len(c.buckets) * int(c.sc.Duration.Seconds()); n > maxKeySeconds && !c.lean {
		return fmt.Errorf("%d keys for %s need too much memory: use fewer keys or a shorter duration, at most %d keys × seconds",
			len(c.buckets), c.sc.Duration, maxKeySeconds)
	}
	return nil
}

// algorithmOf is what a rule's keys are shared by, for people.
func algorithmOf(rule *dynamicconfig.Rule) string {
	if m := rule.Migration; m != nil {
		return fmt.Sprintf("%s>%s:%s", m.From, m.To, m.Mode)
	}
	return rule.Algorithm
}

// run lets everything happen.
func (c *cluster) run(ctx context.Context) error {
	defer c.endWorkers()
	end := c.sc.Duration
	for len(c.queue.heap) > 0 && c.err == nil {
		e := c.queue.heap[0]
		if e.at >= end {
			break
		}
		if c.stuck++; e.at > c.now {
			c.now, c.stuck = e.at, 0
		} else if c.stuck > maxStuck {
			return fmt.Errorf("at %s: %d events and time does not go on", c.now, c.stuck)
		}
		if c.events++; c.events > maxEvents {
			return fmt.Errorf("more than %d events: lower the rates or the duration", int64(maxEvents))
		}
		if c.events%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		switch e.kind {
		case arrival:
			c.fromStream(&c.streams[e.ref])
			continue
		case traced:
			c.fromTrace()
			continue
		}
		c.queue.pop()
		if err := c.handle(e); err != nil {
			return fmt.Errorf("at %s: %w", c.now, err)
		}
	}
	c.now = end
	for _, h := range c.hosts {
		if h.up && h.limits {
			c.wasUp(h)
			c.books.ends(h, h.local(c.now))
		}
	}
	return c.err
}

// handle is an event that is no traffic.
func (c *cluster) handle(e event) error {
	switch e.kind {
	case action:
		return c.act(c.todo[e.ref])
	case version:
		return c.change(int(e.who), e.ref == 1)
	case retries:
		c.retry(e.ref)
		return nil
	case sample:
		c.weights.take(c)
		return nil
	}
	h := c.hosts[e.who]
	switch {
	case h.up && h.pauses > 0:
		h.held = append(h.held, held{event: e})
	case h.up:
		return c.atHost(h, e)
	case e.kind.hasMessage():
		c.fetch(e.ref)
	case e.kind == view:
		c.branches[h.branch].members.seen(e.ref)
	}
	return nil
}
