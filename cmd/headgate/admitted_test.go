// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig/file"
	"github.com/headgate/headgate/limiter/client"
	"github.com/headgate/headgate/rpc"
)

// admitted is what the hosts of a cluster were allowed of one key, and how. They
// decide under auto, with the fallback even.
//
// It is held to what is promised, of any time between two events and at any speed of the
// machine: limit·time + burst + what hosts may hold (algorithm.Elastic.Overshoot), and
//
//   - a burst for each change of owner, and a second limit while daemons disagree about owners
//     (docs/reliability.md);
//   - what a host uses on a grant that the owner takes to be over, because it heard nothing of
//     the host for algorithm.Silence intervals (docs/design/0002-elastic.md);
//   - what a host whose ask is not answered in time uses of its whole fair part, until its next
//     report settles it (docs/config.md);
//   - what hosts use by their fallback (docs/leases.md), which is the limit and a burst at most.
//
// None of these happens while everybody answers in time, but for one change of owner when
// a daemon is killed.
type admitted struct {
	key             string
	limit, burst    float64
	interval, lease time.Duration

	events []admission
	grants []time.Time // when each host's newest grant was asked for, or earlier
	asks   []int64     // how many each host's owner has granted
	alone  []float64   // what each host may have used since then that is not settled yet
	newest time.Time   // the owner has given something to somebody by then
}

// reporting is how long the reports of a host take. Safe for concurrent use.
type reporting struct {
	mu   sync.Mutex // protects done
	done []report
}

// report is a report that was answered.
type report struct{ asked, answered time.Time }

// Caller implements rpc.Instrument.
func (r *reporting) Caller(_ string, d rpc.Decider) rpc.Decider { return timedDecider{d, r} }

// Answerer implements rpc.Instrument.
func (r *reporting) Answerer(d rpc.Decider) rpc.Decider { return d }

// longest is how long a report took at most, of those that were answered since.
func (r *reporting) longest(since time.Time) (d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.done = slices.DeleteFunc(r.done, func(one report) bool { return one.answered.Before(since) })
	for _, one := range r.done {
		d = max(d, one.answered.Sub(one.asked))
	}
	return d
}

func newAdmitted(key string, limit, burst float64, interval, lease time.Duration, hosts int) *admitted {
	return &admitted{
		key: key, limit: limit, burst: burst, interval: interval, lease: lease,
		grants: make([]time.Time, hosts), asks: make([]int64, hosts), alone: make([]float64, hosts),
	}
}

// timedDecider notes how long reports take.
type timedDecider struct {
	rpc.Decider
	to *reporting
}

// Update implements rpc.Decider.
func (d timedDecider) Update(ctx context.Context, caller string, payload *anypb.Any) (*anypb.Any, error) {
	asked := time.Now()
	answer, err := d.Decider.Update(ctx, caller, payload)
	if err == nil && rpc.KindOf(payload) == "Usage" {
		d.to.mu.Lock()
		defer d.to.mu.Unlock()
		d.to.done = append(d.to.done, report{asked, time.Now()})
	}
	return answer, err
}

// admission is one event that was allowed.
type admission struct {
	asked, at time.Time // it was allowed at some time between
	kind      byte
	alone     float64 // of all hosts
}

const (
	byOwner    = iota // by the key's owner, or out of what it has granted
	byOldGrant        // out of a grant that may be over
	byFallback
)

// host is one of those that decide.
type host struct {
	*client.Client
	reports *reporting
}

// newHost returns a host of so many that asks deciders at addresses, with the file limits.
func newHost(t *testing.T, addresses []string, hosts int, limits string) *host {
	t.Helper()
	reports := new(reporting)
	c, err := client.New(client.Config{Addresses: addresses, Hosts: hosts}, file.New(limits),
		client.WithLogger(slog.New(slog.DiscardHandler)), client.WithInstrument(reports))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &host{c, reports}
}

// decide asks h, which is host i, for one event now.
func (a *admitted) decide(h *host, i int) bool {
	c := h.Client
	before := time.Now()
	held := share(c, a.key)
	a.grants[i] = before.Add(held.Lease - a.lease - h.reports.longest(before.Add(-a.lease)))
	if latest := time.Now().Add(held.Lease - a.lease); held.Lease > 0 && latest.After(a.newest) {
		a.newest = latest
	}
	silence := time.Duration(algorithm.Silence * float64(a.interval))
	a.alone[i] = 0
	if faster := float64(held.Level.Limit) - held.Weight*a.limit; held.Lease > 0 && !held.Fallback && faster > 0 {
		a.alone[i] = faster * min(before.Sub(a.grants[i]), silence).Seconds()
	}
	asked := time.Now()
	v := c.For(a.key).Decide(context.Background(), 1, 0)
	now := time.Now()
	if granted := share(c, a.key).Asked.Granted; v.OK && v.By == "owner" || granted != a.asks[i] {
		a.asks[i], a.newest = granted, now
	}
	if !v.OK {
		return false
	}
	e := admission{asked: asked, at: now}
	for _, tokens := range a.alone {
		e.alone += tokens
	}
	switch v.By {
	case "auto":
		if a.newest.Sub(a.grants[i]) > silence {
			e.kind = byOldGrant
		}
	case "even":
		e.kind = byFallback
	}
	a.events = append(a.events, e)
	return true
}

// askAll has hosts decide about all keys in turn, each key perSecond times, for as long as d,
// and returns how often each was allowed per second.
func askAll(hosts []*host, all []*admitted, perSecond float64, d time.Duration) []float64 {
	rates, began := make([]float64, len(all)), time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for asked := 0; time.Since(began) < d; <-tick.C {
		for ; float64(asked) < time.Since(began).Seconds()*perSecond; asked++ {
			for k, a := range all {
				if i := asked % len(hosts); a.decide(hosts[i], i) {
					rates[k]++
				}
			}
		}
	}
	took := time.Since(began).Seconds()
	for k := range rates {
		rates[k] /= took
	}
	return rates
}

// check holds all events so far to what is promised, with the rings that daemons had.
func (a *admitted) check(t *testing.T, rings []ringSeen) {
	t.Helper()
	most := a.burst + algorithm.Elastic{}.Overshoot(algorithm.Limit{Rate: a.limit, Burst: a.burst}, len(a.grants), a.interval)
	n, from, to := a.beyond(rings, byOwner)
	t.Logf("%s: at most %.0f beyond the limit at a time, of %.0f", a.key, n, most)
	if n > most {
		t.Errorf("%s: %.0f events beyond the limit from %v on, within %v, want at most %.0f", a.key, n, from, to.Sub(from), most)
	}
	if n, from, to := a.beyond(nil, byFallback); n > a.burst {
		t.Errorf("%s: fallbacks let %.0f events beyond the limit through from %v on, within %v, want at most %.0f", a.key, n, from, to.Sub(from), a.burst)
	}
}

// beyond is how many events of a kind there were beyond the limit, and what is promised with
// rings, in the worst time, and which that is.
func (a *admitted) beyond(rings []ringSeen, kind byte) (most float64, from, to time.Time) {
	type step struct {
		at    time.Time
		ring  *ringSeen
		uses  float64
		alone float64
	}
	var steps []step
	for _, e := range a.events {
		if e.kind == kind {
			steps = append(steps, step{at: e.asked}, step{at: e.at, uses: 1, alone: e.alone})
		}
	}
	if len(steps) == 0 {
		return 0, from, to
	}
	last := steps[0].at
	for i := range rings {
		steps = append(steps, step{at: rings[i].at, ring: &rings[i]})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return a.at.Compare(b.at) })
	level, least := 0.0, 0.0 // the events so far, less what may be
	var begins time.Time     // of least
	var owners owners
	for _, s := range steps {
		if passed := s.at.Sub(last); passed > 0 {
			level -= a.limit * passed.Seconds() * float64(max(owners.rings(), 1))
			last = s.at
		}
		if s.ring != nil && owners.change(*s.ring) {
			level -= a.burst
		}
		if s.uses == 0 && level < least {
			least, begins = level, s.at
		}
		if level += s.uses; level-least-s.alone > most {
			most, from, to = level-least-s.alone, begins, s.at
		}
	}
	return most, from, to
}
