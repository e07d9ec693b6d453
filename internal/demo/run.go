// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Run plays the demo and returns what it measured. It hands a Frame to watch,
// which may be nil, about four times per Interval; watch must not keep it
// waiting. When ctx ends, the Result is of what there was until then, which is
// not an error. When Run returns, nothing of it runs any more.
func Run(ctx context.Context, config Config, watch func(Frame)) (Result, error) {
	if err := config.Validate(); err != nil {
		return Result{}, fmt.Errorf("demo: %w", err)
	}
	config = config.withDefaults()
	result := Result{LimitPerS: float64(config.Limit), hosts: config.Hosts}
	c, err := newCluster(ctx, config)
	if err != nil {
		if ctx.Err() != nil {
			err = nil
		}
		return result, err
	}
	r := newRunner(config, c, watch, &result)
	err = errors.Join(r.play(ctx), r.close())
	return result, err
}

// runner tells the story on a cluster. It is for one goroutine.
type runner struct {
	config  Config
	cluster *cluster
	load    *load
	watch   func(Frame)
	meter   *meter
	result  *Result

	began    time.Time
	round    int
	hot      int    // gets most of the traffic
	killed   int    // is dead; -1: none
	page     string // where people see the cluster in a browser
	headline string
	recent   []reading // one per sample, newest last, over about a second
	history  [][]float64
	samples  int
}

func newRunner(config Config, c *cluster, watch func(Frame), result *Result) *runner {
	if watch == nil {
		watch = func(Frame) {}
	}
	all := config.measured()
	return &runner{
		config: config, cluster: c, watch: watch, result: result,
		meter: newMeter(all, config.Hosts), history: make([][]float64, len(all)),
		began: time.Now(), killed: -1,
	}
}

// phase is one part of the story.
type phase struct {
	index  int
	length time.Duration
	events []event
	warmup bool // measure only when the cluster is warm
}

// event happens some time after its phase has begun.
type event struct {
	at time.Duration
	do func() error
}

// play plays the phases until they are over or ctx ends.
func (r *runner) play(ctx context.Context) error {
	decides := r.cluster.decider()
	first, second := others(r.config.Hosts, decides)
	r.hot = first
	page, err := servePage(ctx, r.cluster.hosts[first]) // which lives until the end
	if err != nil {
		return ignoreIf(ctx, err)
	}
	defer page.close()
	r.page = page.url
	r.load = startLoad(ctx, r.config, aimAt(r.cluster.hosts, r.hot, -1))
	whole := r.config.For
	if whole == 0 {
		whole = roundLength * r.config.Interval
	}
	for ctx.Err() == nil {
		r.round++
		for _, p := range r.story(ctx, whole, first, second, decides) {
			if ctx.Err() != nil {
				return nil
			}
			if err := r.playPhase(ctx, p); err != nil {
				return err
			}
		}
		if r.config.For != 0 {
			break
		}
	}
	return nil
}

// others are two hosts of n which do not decide: they will be hot, and live.
func others(n, decides int) (first, second int) {
	return (decides + 2) % n, (decides + 1) % n
}

// story is the phases of one round. Steady is half of it, for its warm-up.
func (r *runner) story(ctx context.Context, whole time.Duration, first, second, decides int) []phase {
	name := func(i int) string { return r.cluster.hosts[i].name }
	part := whole / 4
	steady := func() error {
		r.hot = first
		r.headline = fmt.Sprintf("90%% of the traffic hits %s", name(first))
		if r.killed >= 0 {
			if err := r.cluster.revive(ctx, r.killed); err != nil {
				return ignoreIf(ctx, err)
			}
			r.killed = -1
			r.headline = fmt.Sprintf("%s is back; 90%% of the traffic hits %s", name(decides), name(first))
		}
		r.load.aim(aimAt(r.cluster.hosts, first, -1))
		return nil
	}
	moved := func() error {
		r.hot = second
		r.headline = fmt.Sprintf("the load has moved: 90%% of the traffic hits %s now", name(second))
		r.load.aim(aimAt(r.cluster.hosts, second, -1))
		return nil
	}
	kill := func() error {
		r.killed = decides
		r.headline = fmt.Sprintf("%s, which decides for this key, was just killed", name(decides))
		r.cluster.hosts[decides].kill()
		return nil
	}
	noticed := func() error {
		r.headline = fmt.Sprintf("%s is dead; the load balancer sends its traffic to the others", name(decides))
		r.load.aim(aimAt(r.cluster.hosts, second, decides))
		return nil
	}
	left := func() error {
		next, err := r.cluster.leave(decides)
		r.headline = fmt.Sprintf("%s is off the list of members; %s decides for its key now", name(decides), next)
		return err
	}
	i := r.config.Interval
	return []phase{
		{index: 0, length: whole - 2*part, warmup: true, events: []event{{0, steady}}},
		{index: 1, length: part, events: []event{{0, moved}}},
		{index: 2, length: part, events: []event{{0, kill}, {i * 3 / 10, noticed}, {i * 3 / 2, left}}},
	}
}

// playPhase lets p's events happen, shows frames, and puts what was measured
// into the result. The measured window is all of p but the warm-up.
func (r *runner) playPhase(ctx context.Context, p phase) error {
	begin := time.Now()
	var from *reading
	tick := time.NewTicker(r.config.Interval / ticks)
	defer tick.Stop()
	for n := 0; ; n++ {
		elapsed := time.Since(begin)
		if from == nil && (!p.warmup || r.warm(elapsed, p.length)) {
			now := r.read()
			from = &now
		}
		for len(p.events) > 0 && p.events[0].at <= elapsed {
			if err := p.events[0].do(); err != nil {
				return err
			}
			p.events = p.events[1:]
		}
		over := elapsed >= p.length || ctx.Err() != nil
		if n%(ticks/samplesPerInterval) == 0 || over {
			r.sample()
			if from != nil {
				r.put(p, *from)
			}
			r.watch(r.frame(p, elapsed, from != nil))
		}
		if over {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

const (
	// ticks of an interval: how exactly events happen in time.
	ticks = 20
	// samplesPerInterval is how often frames are shown.
	samplesPerInterval = 4
)

// settle is how many rounds the deciders' moving averages need: what the
// first, partial report got wrong is then 1/64 of what it was.
const settle = 6

// warm reports whether the measured window may begin: the averages have settled
// and every host has a grant. It begins with the last 40% of the phase in any
// case. It does not look at what was admitted.
func (r *runner) warm(elapsed, length time.Duration) bool {
	latest := length * 6 / 10
	if elapsed >= latest {
		return true
	}
	if elapsed < settle*r.config.Interval {
		return false
	}
	for _, h := range r.cluster.hosts {
		for _, lane := range r.config.Lanes {
			shares := h.status(lane.Key).Shares
			if len(shares) == 0 {
				return false
			}
			for _, s := range shares {
				if s.Fallback {
					return false
				}
			}
		}
	}
	return true
}

// put records what was measured since from.
func (r *runner) put(p phase, from reading) {
	newest := r.recent[len(r.recent)-1]
	if newest.at.Sub(from.at) < r.config.Interval/2 {
		return // too short to say anything
	}
	r.result.put(Phase{
		Name:    Phases()[p.index],
		Results: from.rates(newest).results(float64(r.config.Limit), r.meter.series),
		length:  newest.at.Sub(from.at),
	})
	r.result.took = time.Since(r.began)
	r.result.failed, r.result.busy, r.result.late = r.load.failed.Load(), r.load.busy.Load(), r.load.late.Load()
}

// close ends the load and the hosts.
func (r *runner) close() error {
	if r.load != nil {
		r.load.close()
	}
	return r.cluster.close()
}

// ignoreIf drops an err that comes of ctx's end.
func ignoreIf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
